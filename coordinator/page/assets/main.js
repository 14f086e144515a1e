/* What is shown, and where: one view, kept in the address; each change of it draws the page anew. */
const view = { incident: null, rank: null, step: null, c0: 0, c1: 0, r0: 0, r1: 0 };
let stacksView = new URLSearchParams(), stacksShown = null, keyOfReader = "";

/* Columns are kept as steps, which stay what they are when columns become longer. */
function address() {
	const parts = new URLSearchParams(stacksView), trail = page.trail;
	for (const key of ["incident", "rank", "step"])
		if (view[key] !== null)
			parts.set(key, view[key]);
	if (trail && (view.c0 > 0 || view.c1 < trail.columns.length)) {
		const last = trail.columns[view.c1 - 1];
		parts.set("steps", `${trail.columns[view.c0][0]}-${last[0] + last[1] - 1}`);
	}
	if (trail && (view.r0 > 0 || view.r1 < trail.rows.length))
		parts.set("rows", `${view.r0}-${view.r1 - 1}`);
	try {
		history.replaceState(null, "", "#" + parts.toString());
	} catch (error) {
		/* a page from disk may not be allowed to: the address then stays as it is */
	}
}

const rangeOf = (text, most) => {
	const found = /^(\d+)-(\d+)$/.exec(text || "");
	return found && Number(found[1]) <= Number(found[2]) && Number(found[2]) <= most ? [Number(found[1]), Number(found[2])] : null;
};

function readAddress(parts) {
	const trail = page.trail, whole = key => /^\d+$/.test(parts.get(key) || "") ? Number(parts.get(key)) : null;
	Object.assign(view, { c0: 0, c1: trail ? trail.columns.length : 0, r0: 0, r1: trail ? trail.rows.length : 0 });
	view.incident = page.incidentOf.has(whole("incident")) ? whole("incident") : null;
	view.rank = whole("rank");
	if (trail) {
		const last = trail.columns[trail.columns.length - 1], steps = rangeOf(parts.get("steps"), last[0] + last[1]), rows = rangeOf(parts.get("rows"), trail.rows.length - 1);
		if (steps)
			[view.c0, view.c1] = [columnOf(steps[0]), columnOf(steps[1]) + 1];
		if (rows)
			[view.r0, view.r1] = [rows[0], rows[1] + 1];
		view.step = whole("step") === null ? null : nearestWalk(whole("step"));
	}
	for (const key of ["view", "thread", "segment", "time", "search", "zoom"])
		if (parts.has(key))
			stacksView.set(key, parts.get(key));
	if (view.incident === null && view.rank === null && sortedVerdicts().length)
		chooseIncident(sortedVerdicts()[0]);
	if (view.rank === null && page.report.ranks.length)
		view.rank = page.report.ranks[0].rank;
	if (view.step === null && trail && trail.walks.length)
		view.step = [...trail.walks].sort((one, other) => worstOf(other) - worstOf(one))[0].step;
}

const worstOf = walk => Math.max(0, ...walk.late.map(([, us]) => us));

/* Its first rank, and of its steps the worst one that is kept. */
function chooseIncident(verdict) {
	const walks = page.trail ? page.trail.walks.filter(walk => walk.step >= verdict.first_step && walk.step <= verdict.last_step) : [];
	const late = walk => (walk.late.find(([rank]) => verdict.ranks.includes(rank)) || [0, 0])[1];
	view.incident = verdict.id;
	view.rank = verdict.ranks.length ? verdict.ranks[0] : view.rank;
	if (walks.length)
		view.step = walks.sort((one, other) => late(other) - late(one))[0].step;
	else if (page.trail)
		view.step = nearestWalk(verdict.first_step);
}

/* The steps of an incident, and half as many on each side; where its ranks are too many to tell apart, those of its node. */
function focusIncident(id) {
	const verdict = page.report.verdicts.find(one => one.id === id), change = {};
	chooseIncident(verdict);
	if (page.trail) {
		const first = columnOf(verdict.first_step), last = columnOf(verdict.last_step), around = Math.max(4, (last - first) >> 1);
		change.c0 = Math.max(0, first - around);
		change.c1 = Math.min(page.trail.columns.length, last + around + 1);
		const row = page.trail.rows.length > TILE && verdict.ranks.length ? rowOfRank(verdict.ranks[0]) : -1, half = TILE / 8;
		if (row >= 0) {
			change.r0 = Math.max(0, row - half);
			change.r1 = Math.min(page.trail.rows.length, row + half);
		}
	}
	stacksView = new URLSearchParams();
	setView(change);
}

function setView(change) {
	Object.assign(view, change);
	draw();
	address();
}

function drawRankChoice() {
	const tracked = page.trail ? page.trail.tracks : [], ranks = new Set([...page.report.verdicts.flatMap(verdict => verdict.ranks), ...tracked]);
	if (view.rank !== null)
		ranks.add(view.rank);
	byId("rank-choice").replaceChildren(...[...ranks].sort((one, other) => one - other).map(rank => new Option(String(rank), String(rank), false, rank === view.rank)));
}

function drawStacks() {
	const flame = page.flames.find(one => one.incident === view.incident) || page.flames[0];
	byId("stacks").hidden = !flame;
	byId("stacks-choice").hidden = page.flames.length < 2;
	byId("stacks-choice").replaceChildren(...page.flames.map(one => new Option(`incident ${one.incident}`, String(one.incident), false, one === flame)));
	if (!flame) {
		byId("stacks-about").replaceChildren(made("span", { class: "none" }, "Not measured: no stacks were looked at. They are of ranks whose host is slow, and of a job that hangs."));
		return;
	}
	byId("stacks-about").textContent = `Incident ${flame.incident}: rank ${flame.looks[0].rank}${flame.looks.length > 1 ? " beside rank " + flame.looks[1].rank : ""}.` +
		(page.flames_left_out ? ` Stacks of ${count(page.flames_left_out, "more incident")} are left out: slowrank report FILE --format flame --incident N.` : "");
	if (stacksShown === flame)
		return;
	stacksShown = flame;
	flames.open(flame, stacksView, parts => { stacksView = parts; address(); });
}

function draw() {
	const charted = page.trail !== null;
	drawIncidents();
	byId("heat").hidden = byId("heat-bar").hidden = byId("heat-told").hidden = !charted || !page.trail.rows.length;
	byId("steps-chart").hidden = !charted;
	if (charted && page.trail.rows.length)
		drawHeat();
	else
		byId("heat-about").textContent = WHY_NONE;
	if (charted)
		drawSteps();
	else
		byId("steps-about").textContent = WHY_NONE;
	drawRankChoice();
	drawEvidence();
	drawRankCharts();
	drawWalk();
	drawStacks();
	fill();
	document.body.dataset.drawn = String(Number(document.body.dataset.drawn || 0) + 1);
	document.body.dataset.firstMs = document.body.dataset.firstMs || performance.now().toFixed(0);
}

/* Asks for what the view shows and is not here yet, and draws that once more when it has come. What comes for another view then is kept. */
let filling = false;
async function fill() {
	if (filling)
		return;
	filling = true;
	const missing = () => page.trail && page.trail.rows.length ? missingParts() : [];
	for (let loads = missing(), failed = false; ; loads = missing()) {
		const done = await Promise.allSettled(loads.map(load => load()));
		failed = done.some(one => one.status === "rejected"); /* the coordinator has another layout, or ended: its next data says */
		if (done.length) {
			drawHeat();
			drawRankChoice();
			drawRankCharts();
			drawWalk();
		}
		document.body.dataset.filled = String(Number(document.body.dataset.filled || 0) + 1);
		document.body.dataset.filledMs = document.body.dataset.filledMs || performance.now().toFixed(0);
		if (!done.length || failed)
			break;
	}
	filling = false;
}

/* What does not depend on the view. */
function drawTables() {
	jobFacts();
	drawCosts();
	drawKernels();
	drawRanks();
	drawCoverage();
}

async function show(data) {
	const first = page === null, before = page && page.trail, whole = before && view.c1 === before.columns.length, all = before && view.r1 === before.rows.length;
	const window = before ? [before.columns[view.c0][0], before.columns[view.c1 - 1][0]] : null;
	page = await decode(data, page);
	if (first || !before || !page.trail) {
		readAddress(first ? new URLSearchParams(location.hash.slice(1)) : new URLSearchParams());
	} else {
		view.c0 = view.c0 ? columnOf(window[0]) : 0;
		view.c1 = whole ? page.trail.columns.length : columnOf(window[1]) + 1;
		view.r1 = all ? page.trail.rows.length : Math.min(view.r1, page.trail.rows.length);
		view.step = view.step === null ? null : nearestWalk(view.step);
	}
	if (view.incident === null && page.report.verdicts.length)
		chooseIncident(sortedVerdicts()[0]);
	drawTables();
	draw();
}

function pageKey(event) {
	if (!page || event.ctrlKey || event.altKey || event.metaKey || ["INPUT", "SELECT"].includes(event.target.tagName))
		return;
	const verdicts = sortedVerdicts(), at = verdicts.findIndex(verdict => verdict.id === view.incident), by = { n: 1, p: -1 }[event.key];
	if (by && verdicts.length)
		focusIncident(verdicts[(at + by + verdicts.length) % verdicts.length].id);
}

/* Served by the coordinator: what it says now, asked twice a second; a key that came with the address is kept for this tab alone. */
const PERIOD_MS = 500;

function takeKey() {
	const hash = location.hash.slice(1);
	if (hash && !hash.includes("=")) {
		sessionStorage.setItem("slowrank-key", decodeURIComponent(hash));
		history.replaceState(null, "", "#");
	}
	keyOfReader = sessionStorage.getItem("slowrank-key") || "";
}

async function poll(etag) {
	let next = etag;
	try {
		const answer = await ask("page.json", etag ? { "If-None-Match": etag } : {});
		if (answer.status === 401 || answer.status === 403)
			byId("job-facts").textContent = "This coordinator wants a key: open the address that ends in #KEY (slowrank key http).";
		else if (answer.status === 200) {
			await show(parse(await answer.text()));
			next = answer.headers.get("ETag");
		}
		byId("live").className = answer.ok || answer.status === 304 ? "on" : "off";
	} catch (error) {
		byId("live").className = error.status ? "on" : "off"; /* a status: the coordinator has another layout by now, and its next data says */
	}
	setTimeout(() => poll(next), PERIOD_MS);
}

function start() {
	const text = byId("data").textContent, data = text === "null" ? null : parse(text);
	listenHeat();
	listenWalk();
	byId("rank-choice").addEventListener("change", () => setView({ rank: Number(byId("rank-choice").value) }));
	byId("stacks-choice").addEventListener("change", () => { stacksView = new URLSearchParams(); focusIncident(Number(byId("stacks-choice").value)); });
	document.addEventListener("keydown", pageKey);
	window.addEventListener("resize", () => { if (page) draw(); });
	window.addEventListener("hashchange", () => { if (page) { readAddress(new URLSearchParams(location.hash.slice(1))); draw(); } });
	matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { if (page) draw(); });
	if (data)
		show(data);
	else {
		takeKey();
		poll("");
	}
}

start();
