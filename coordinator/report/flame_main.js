/* The page of flame graphs alone: the address keeps what is shown. */
const data = JSON.parse(document.getElementById("data").textContent);
const rank = data.looks[0].rank, element = id => document.getElementById(id);

element("title").textContent =
	`Rank ${rank}${data.looks.length > 1 ? " beside rank " + data.looks[1].rank : ""}: what ${data.hang ? "they hang in" : "it was doing"}`;
document.title = `slowrank: stacks of rank ${rank}`;
element("sentence").textContent = data.sentence ? `Incident ${data.incident}: ${data.sentence}.` : "";
flames.open(data, new URLSearchParams(location.hash.slice(1)), parts => {
	try {
		history.replaceState(null, "", "#" + parts.toString());
	} catch (error) {
		/* a page from disk may not be allowed to: the address then stays as it is */
	}
});
