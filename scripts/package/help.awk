# Takes a help text apart: one line for each usage, paragraph of text, and item (an option, an example) with what is
# said of it, with tabs between. A line of text indented by two spaces is an item; more, what is said of the last one.
function end_paragraph() {
	if (text != "")
		print "text\t" text
	if (name != "")
		print "item\t" name "\t" said
	text = name = said = ""
}
function join(a, b) { return a == "" ? b : a " " b }
{ sub(/[ \t]+$/, "") }
/^usage: / || (in_usage && /^ /) {
	in_usage = 1
	sub(/^(usage:)? +/, "")
	print "usage\t" $0
	next
}
{ in_usage = 0 }
/^$/ {
	end_paragraph()
	next
}
/^  [^ ]/ {
	if (name !~ /,$/)
		end_paragraph()
	line = substr($0, 3)
	at = match(line, /  +/)
	name = join(name, at ? substr(line, 1, at - 1) : line)
	said = at ? substr(line, at + RLENGTH) : ""
	next
}
/^   / && name != "" {
	sub(/^ +/, "")
	said = join(said, $0)
	next
}
{
	if (name != "")
		end_paragraph()
	text = join(text, $0)
}
END { end_paragraph() }
