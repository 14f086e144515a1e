/* Flame graphs of a look, of its control and of their difference, in the elements of flame.html. */
const flames = (() => {
const SVG = "http://www.w3.org/2000/svg", ROW = 18, LEAST = 0.5, DRAWN_MAX = 8000;
const WAIT = 3, KERNEL = 4, DEVICE = 5, RUNNING = 1; /* kinds of frames; a state */
const $ = id => document.getElementById(id), KEPT = ["view", "thread", "segment", "time", "search", "zoom"];
const shown = { view: "", thread: "", segment: "", time: "all", search: "", zoom: "", chosen: "" };
let data = null, both, unit, words, first, changed;
let boxes = new Map(), root = null;

function element(name, attributes, parent) {
	const made = document.createElementNS(SVG, name);
	for (const key in attributes)
		made.setAttribute(key, attributes[key]);
	if (parent)
		parent.appendChild(made);
	return made;
}

/* Names are the target's choice: what steers or reorders text is none. */
const plain = name => name.replace(/[\u0000-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g, "?");

function nameOf(node) {
	const [, kind, name, shortFile, wholeFile, line] = node, text = data.names[name];
	const file = data.names[kind === WAIT ? wholeFile : shortFile];
	if (kind === WAIT)
		return text ? `[waiting: ${text}${file ? " " + file : ""}]` : `[on ${file}]`;
	return (text || "?") + (kind === KERNEL ? "_[k]" : "") + (file ? ` (${file}${line ? ":" + line : ""})` : "");
}

function fileOf(node) {
	const file = data.names[node[4]];
	return node[1] !== WAIT && file !== data.names[node[3]] ? file : "";
}

/* What a thread waits on: a number, an address; another one on each rank, so that no difference is one. */
const isTarget = node => node[1] === WAIT && !data.names[node[2]];

/* A box: its time by side, on the CPU and off it, with all below it and by itself. */
function box(key, label, kind, parent, file) {
	return { key, label, kind, parent, file, children: [], own: [0, 0], total: [[0, 0], [0, 0]], width: 0, depth: parent ? parent.depth + 1 : 0 };
}

function boxOf(thread, node) {
	const key = `${thread}.${node}`;
	let found = boxes.get(key);
	if (found)
		return found;
	const at = data.nodes[node];
	const parent = at[0] < 0 ? boxOfThread(thread) : boxOf(thread, at[0]);
	found = box(key, nameOf(at), at[1], parent, fileOf(at));
	found.target = isTarget(at);
	parent.children.push(found);
	boxes.set(key, found);
	return found;
}

function boxOfThread(thread) {
	const key = `${thread}`;
	let found = boxes.get(key);
	if (!found) {
		found = box(key, data.threads[thread][0], 0, root, "");
		root.children.push(found);
		boxes.set(key, found);
	}
	return found;
}

function isWanted(sum) {
	const running = sum[4] === RUNNING || sum[4] === 0;
	return (shown.thread === "" || sum[2] === Number(shown.thread)) && (shown.segment === "" || sum[3] === Number(shown.segment)) &&
		(shown.time === "all" || (shown.time === "run") === running);
}

function build() {
	boxes = new Map();
	root = box("", "all", 0, null, "");
	boxes.set("", root);
	for (const sum of data.sums) {
		if (!isWanted(sum))
			continue;
		const leaf = boxOf(sum[2], sum[1]), off = sum[4] === RUNNING || sum[4] === 0 ? 0 : 1;
		leaf.own[sum[0]] += sum[5];
		leaf.states = leaf.states || [new Map(), new Map()];
		leaf.states[sum[0]].set(sum[4], (leaf.states[sum[0]].get(sum[4]) || 0) + sum[5]);
		for (let at = leaf; at; at = at.parent)
			at.total[sum[0]][off] += sum[5];
	}
	const order = [...boxes.values()].sort((a, b) => b.depth - a.depth);
	for (const at of order) { /* as wide as the longer one of both, so that nothing is hidden */
		at.wide = Math.max(at.own[0], at.own[1]);
		for (const child of at.children)
			at.wide += child.wide;
		at.children.sort((a, b) => b.wide - a.wide || (a.key < b.key ? -1 : 1));
	}
}

const timeOf = (at, side) => at.total[side][0] + at.total[side][1];

function widthOf(at) {
	return shown.view === "difference" ? at.wide : timeOf(at, shown.view === "control" ? 1 : 0);
}

function waitShare(at) {
	const sides = shown.view === "difference" ? [0, 1] : [shown.view === "control" ? 1 : 0];
	let on = 0, off = 0;
	for (const side of sides) {
		on += at.total[side][0];
		off += at.total[side][1];
	}
	return on + off > 0 ? off / (on + off) : 0;
}

const ms = us => data.unit === "looks" ? us.toFixed(0) : (us / 1000).toFixed(us < 100 ? 3 : us < 10000 ? 2 : 1);

function timeText(at) {
	if (!both)
		return `${ms(timeOf(at, 0))} ${unit}`;
	const more = timeOf(at, 0) - timeOf(at, 1);
	return `${words[0]} ${ms(timeOf(at, 0))}, ${words[1]} ${ms(timeOf(at, 1))} ${unit} (${more < 0 ? "-" : "+"}${ms(Math.abs(more))})`;
}

function statesText(at) {
	const parts = [];
	for (let side = 0; at.states && side < 2; side++)
		for (const [state, us] of at.states[side])
			parts.push(`${words[side]} ${data.states[state] || "waits"} ${ms(us)} ${unit}`);
	return parts.join("; ");
}

const isFound = at => shown.search !== "" && (at.label + " " + at.file).toLowerCase().includes(shown.search.toLowerCase());

/* Time below matches, each once; then whether something below matches. */
function search(at, side) {
	if (at !== root && isFound(at))
		return timeOf(at, side);
	return at.children.reduce((sum, child) => sum + search(child, side), 0);
}

function colour(rect, at, most) {
	if (shown.view !== "difference") {
		rect.classList.add(at.kind === DEVICE ? "device" : at.depth < 2 && at.children.length ? "path" : waitShare(at) > 0.5 ? "wait" : "run");
		return;
	}
	const more = timeOf(at, 0) - timeOf(at, 1), share = most > 0 ? Math.min(1, Math.abs(more) / most) : 0;
	rect.classList.add("path");
	if (share > 0.005 && !at.target)
		rect.style.fill = `rgba(var(--${more > 0 ? "more" : "less"}), ${(0.15 + 0.85 * share).toFixed(3)})`;
}

function drawBox(parent, at, x, width, row, most, above) {
	const group = element("g", { id: "box-" + at.key, role: "treeitem" }, parent);
	const rect = element("rect", { class: "frame", x: x.toFixed(2), y: row * ROW, width: width.toFixed(2), height: ROW - 1 }, group);
	const share = waitShare(at), label = `${at.label}: ${timeText(at)}`;
	colour(rect, at, most);
	if (above)
		group.classList.add("above");
	if (share > 0.002)
		element("rect", { class: "hatch", x: (x + width * (1 - share)).toFixed(2), y: row * ROW, width: (width * share).toFixed(2), height: ROW - 1 }, group);
	if (width > 25) {
		const text = element("text", { x: (x + 3).toFixed(2), y: row * ROW + 12 }, group), room = Math.floor((width - 6) / 6.7);
		text.textContent = at.label.length > room ? at.label.slice(0, Math.max(0, room - 1)) + "\u2026" : at.label;
	}
	element("title", {}, group).textContent = label;
	group.setAttribute("aria-label", label);
	if (isFound(at))
		group.classList.add("found");
	else if (shown.search !== "")
		group.classList.add("dim");
	if (at.key === shown.chosen)
		group.classList.add("chosen");
	group.addEventListener("click", () => { shown.chosen = at.key; zoom(at.key); });
	group.addEventListener("mouseenter", () => details(at));
}

function details(at) {
	$("details").textContent = [`${at.label}: ${timeText(at)}`, at.file, statesText(at)].filter(Boolean).join("\n");
}

function largest(at) {
	let most = 0;
	for (const child of boxes.values())
		if (!child.target && child.children.every(one => one.target))
			most = Math.max(most, Math.abs(timeOf(child, 0) - timeOf(child, 1)));
	return most || Math.abs(timeOf(at, 0) - timeOf(at, 1));
}

function draw() {
	const graph = $("graph"), width = Math.max(300, graph.clientWidth || 1200);
	const from = boxes.get(shown.zoom) || root, way = [];
	let rows = 0, drawn = 0, omitted = 0;

	for (let at = from.parent; at; at = at.parent)
		way.unshift(at);
	graph.replaceChildren();
	const svg = element("svg", {}, graph), most = shown.view === "difference" ? largest(from) : 0;
	const hatch = element("pattern", { id: "hatch", width: 5, height: 5, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, element("defs", {}, svg));
	element("rect", { width: 1.2, height: 5, style: "fill: var(--hatch)" }, hatch);
	way.forEach((at, row) => drawBox(svg, at, 0, width, row, most, true));
	const scale = widthOf(from) > 0 ? width / widthOf(from) : 0, open = [[from, 0]];
	while (open.length) {
		const [at, x] = open.pop(), own = widthOf(at) * scale;
		if (own < LEAST || drawn >= DRAWN_MAX) {
			omitted += widthOf(at) > 0 ? 1 : 0;
			continue;
		}
		drawBox(svg, at, x, own, at.depth, most, false);
		drawn++;
		rows = Math.max(rows, at.depth + 1);
		let next = x;
		for (const child of at.children) {
			open.push([child, next]);
			next += widthOf(child) * scale;
		}
	}
	rows = Math.max(rows, way.length + 1);
	svg.setAttribute("viewBox", `0 0 ${width} ${rows * ROW}`);
	svg.setAttribute("height", rows * ROW);
	graph.dataset.boxes = drawn;
	tell(from, omitted);
}

function tell(from, omitted) {
	const parts = [];
	if (scaleless(from))
		parts.push("Nothing was seen here.");
	if (shown.search !== "") {
		const sides = both ? [0, 1] : [0];
		parts.push("Found: " + sides.map(side => `${words[side]} ${ms(search(root, side))} of ${ms(timeOf(root, side))} ${unit}`).join(", ") + ".");
	}
	if (from !== root)
		parts.push(`Zoomed to ${from.label}.`);
	if (omitted)
		parts.push(`${omitted} boxes are too narrow to be drawn: zoom in.`);
	$("status").textContent = parts.join(" ");
}

const scaleless = at => widthOf(at) <= 0;

/* What is shown, to be opened again. */
function keep() {
	const parts = new URLSearchParams();
	for (const key of KEPT)
		if (shown[key] !== "")
			parts.set(key, shown[key]);
	changed(parts);
}

function refresh() {
	for (const view of ["difference", "suspect", "control"])
		$("view-" + view).setAttribute("aria-selected", String(shown.view === view));
	for (const key of ["thread", "segment", "time", "search"])
		$(key).value = shown[key];
	build();
	draw();
	keep();
}

function zoom(key) {
	shown.zoom = boxes.has(key) ? key : "";
	draw();
	keep();
	const at = boxes.get(shown.chosen);
	if (at)
		details(at);
}

function choose(at) {
	if (!at)
		return;
	for (const old of document.querySelectorAll(".chosen"))
		old.classList.remove("chosen");
	shown.chosen = at.key;
	const group = $("box-" + at.key);
	if (group) {
		group.classList.add("chosen");
		$("graph").setAttribute("aria-activedescendant", group.id);
	}
	details(at);
}

function beside(at, by) {
	const siblings = at.parent ? at.parent.children.filter(one => widthOf(one) > 0) : [at];
	return siblings[siblings.indexOf(at) + by];
}

function graphKey(event) {
	const at = boxes.get(shown.chosen) || boxes.get(shown.zoom) || root;
	const moves = {
		ArrowDown: () => choose(at.children.find(one => widthOf(one) > 0)), ArrowUp: () => choose(at.parent),
		ArrowLeft: () => choose(beside(at, -1)), ArrowRight: () => choose(beside(at, 1)),
		Enter: () => zoom(at.key), Escape: () => { const from = boxes.get(shown.zoom); zoom(from && from.parent ? from.parent.key : ""); },
	};
	if (!moves[event.key])
		return;
	moves[event.key]();
	event.preventDefault();
}

function pageKey(event) {
	if (event.ctrlKey || event.altKey || event.metaKey || event.target === $("search") || event.target.tagName === "SELECT")
		return;
	const views = { 1: "difference", 2: "suspect", 3: "control" };
	if (event.key === "/") {
		$("search").focus();
		event.preventDefault();
	} else if (views[event.key]) {
		show(views[event.key]);
	}
}

function show(view) {
	shown.view = both ? view : "suspect";
	refresh();
}

function options(id, labels, every) {
	const list = $(id);
	list.replaceChildren(new Option(every, ""));
	labels.forEach((label, index) => list.appendChild(new Option(label[0], String(index))));
}

function head() {
	$("looks").tBodies[0].replaceChildren();
	data.looks.forEach((look, side) => {
		const row = $("looks").tBodies[0].insertRow();
		for (const text of [words[side], look.rank, look.host, new Date(look.start_unix_ns / 1e6).toISOString(), look.seconds.toFixed(1) + " s",
			look.steps, look.looks, look.incomplete, look.why])
			row.insertCell().textContent = text;
	});
	$("view-suspect").textContent = "2 " + words[0];
	$("view-control").textContent = "3 " + words[1];
	$("view-difference").disabled = $("view-control").disabled = !both;
	$("legend").replaceChildren();
	for (const [name, text] of [["run", "on the CPU"], ["wait", "waiting (hatched)"], ["device", "kernels: by name alone, of the newest deep look; which call launched them is not known"],
		["more", `more than the ${words[1]}`], ["less", "less"]]) {
		const key = document.createElement("span");
		key.className = "key " + name;
		$("legend").append(key, text);
	}
}

/* Draws stacks as the report has them. wanted: what to show of them; onChange gets the same when somebody chose otherwise. */
function open(stacks, wanted, onChange) {
	data = stacks;
	data.names = data.names.map(plain);
	both = data.looks.length > 1;
	unit = { "us/step": "ms/step", us: "ms", looks: "looks" }[data.unit];
	words = data.hang ? ["missing", "waiting"] : ["suspect", "control"];
	first = both && !data.hang ? "difference" : "suspect"; /* who waits is no measure for who is missing */
	changed = onChange;
	Object.assign(shown, { view: first, thread: "", segment: "", time: "all", search: "", zoom: "", chosen: "" });
	for (const key of KEPT)
		if (wanted.has(key))
			shown[key] = wanted.get(key);
	if (!both || !["difference", "suspect", "control"].includes(shown.view))
		shown.view = first;
	head();
	options("thread", data.threads, "all threads");
	options("segment", data.segments, "all of it");
	refresh();
}

function listen() {
	for (const view of ["difference", "suspect", "control"])
		$("view-" + view).addEventListener("click", () => show(view));
	for (const key of ["thread", "segment", "time"])
		$(key).addEventListener("change", () => { shown[key] = $(key).value; refresh(); });
	$("search").addEventListener("input", () => { shown.search = $("search").value; draw(); keep(); });
	$("search").addEventListener("keydown", event => { if (event.key === "Escape") { shown.search = $("search").value = ""; draw(); keep(); $("graph").focus(); } });
	$("reset").addEventListener("click", () => { shown.chosen = ""; zoom(""); });
	$("graph").addEventListener("keydown", graphKey);
	document.addEventListener("keydown", event => { if (data) pageKey(event); });
	window.addEventListener("resize", () => { if (data) draw(); });
}

listen();
return { open, words: () => words };
})();
