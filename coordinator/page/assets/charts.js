/* Charts over the job's steps, all under one time axis: step time, and what the steps of the rank in focus are made of. */
const LEFT = 120, RIGHT = 14;
const COLOURS = { work: "--s-work", wait: "--s-wait", transfer: "--s-transfer", preempted: "#b07aa1", throttled: "#d1483c", "block i/o": "#8c6d46", asleep: "#b8b2a7",
	"major faults": "#e07b39", "minor faults": "#e0c23a", "host CPU": "#5ba3a3", "garbage collection": "#cf6fa3" };
const charts = new Map();

const colourOf = name => COLOURS[name].startsWith("--") ? style(COLOURS[name]) : COLOURS[name];

/* Steps of incidents, as bands behind a chart. */
function drawBands(canvas, area, graph) {
	for (const verdict of page.report.verdicts) {
		const from = Math.max(area.x, graph.toDomXCoord(verdict.first_step)), to = Math.min(area.x + area.w, graph.toDomXCoord(verdict.last_step + 1));
		if (to < area.x || from > area.x + area.w)
			continue;
		canvas.fillStyle = `rgba(${style("--own")}, ${verdict.id === view.incident ? 0.16 : 0.07})`;
		canvas.fillRect(from, area.y, Math.max(2, to - from), area.h);
	}
	if (view.step !== null) {
		canvas.fillStyle = style("--text");
		canvas.fillRect(Math.round(graph.toDomXCoord(view.step)), area.y, 1, area.h);
	}
}

/* Step numbers below the axis, with the time of day. */
function stepLabel(step) {
	const columns = page.trail.columns, last = columns[columns.length - 1];
	if (step !== Math.round(step) || step < columns[0][0] || step > last[0] + last[1])
		return "";
	return `${step}`;
}

const windowOf = () => {
	const columns = page.trail.columns, first = columns[view.c0], last = columns[view.c1 - 1];
	return [first[0], last[0] + last[1]];
};

function zoomToSteps(from, to) {
	setView({ c0: columnOf(Math.floor(from)), c1: Math.max(columnOf(Math.floor(from)) + 1, columnOf(Math.ceil(to)) + 1) });
}

/* So high that one odd step, the first one mostly, does not flatten all others. */
function highest(rows, stacked) {
	const shown = rows.slice(view.c0, view.c1).map(row => stacked ? row.slice(1).reduce((sum, value) => sum + (value || 0), 0) : Math.max(...row.slice(1)));
	const sorted = shown.sort((one, other) => one - other), most = sorted[sorted.length - 1], usual = sorted[Math.floor((sorted.length - 1) * 0.98)];
	return Math.max(1e-3, Math.min(most, 1.5 * usual) * 1.06);
}

const axisOfSteps = () => ({ axisLabelFormatter: stepLabel, valueFormatter: step => { const column = page.trail.columns[columnOf(step)]; return `${stepWords(column)}, ${clock(column[3])} UTC`; }, pixelsPerLabel: 90 });

/* name: of the chart; rows: [step, value...]. */
function chart(name, holder, labels, rows, more) {
	const options = Object.assign({ labels, valueRange: [0, highest(rows, more.stackedGraph)], dateWindow: windowOf(), colors: [], legend: "onmouseover", animatedZooms: false, axisLineColor: style("--line"), gridLineColor: style("--grid"),
		rightGap: RIGHT, includeZero: true, strokeWidth: 1.4, highlightCircleSize: 3, xRangePad: 0, underlayCallback: drawBands,
		axes: { x: axisOfSteps(),
			y: { axisLabelWidth: LEFT - 6, axisLabelFormatter: value => time(value), valueFormatter: value => time(value), pixelsPerLabel: 30 } },
		zoomCallback: (from, to) => zoomToSteps(from, to), clickCallback: (event, step) => setView({ step: nearestWalk(step) }) }, more);
	const old = charts.get(name);
	if (old && old.holder === holder && old.labels === labels.join()) {
		old.graph.updateOptions(Object.assign({ file: rows }, options));
		return;
	}
	if (old)
		old.graph.destroy();
	charts.set(name, { graph: new Dygraph(holder, rows, options), holder, labels: labels.join() });
}

function drawSteps() {
	const columns = page.trail.columns, folded = page.trail.steps_in_column > 1;
	const rows = columns.map(column => folded ? [column[0], column[4], column[5]] : [column[0], column[4]]);
	byId("steps-about").textContent = folded ? `mean and longest of ${page.trail.steps_in_column} steps each` : "";
	chart("steps", byId("steps-chart"), folded ? ["step", "mean", "longest"] : ["step", "step time"], rows,
		{ colors: folded ? [style("--text"), style("--soft")] : [style("--text")], stepPlot: columns.length < 400 });
}

/* What there is of a rank's course, or why there is nothing. */
function whyNoTrack(rank) {
	if (page.trail.tracked.has(rank))
		return "The course of this rank is on its way.";
	if (page.trail.tracks.length && page.rank_count > 16)
		return `The course of rank ${rank} is not kept: in a job of ${number(page.rank_count)} ranks it is kept of the ranks that incidents name.`;
	return `Not measurable: no step of rank ${rank} could be compared with peers.`;
}

const KINDS = 9, WAIT = 0, TRANSFER = 1, OWN = 4, CONTROL = OWN + KINDS; /* places of series */

/* What is left of a step for transfers: a rank that was off its CPU in a call has that as its own time already. */
function restOf(track, place) {
	let rest = page.trail.columns[place][4] - track.series[WAIT][place];
	for (let kind = 0; kind < KINDS; kind++)
		rest -= track.series[OWN + kind][place];
	return rest;
}

function drawPhases(track, holder) {
	const shown = [];
	for (const at of [...Array(KINDS).keys()].map(kind => OWN + kind).concat([TRANSFER, WAIT]))
		if (track.series[at].some(value => value > 0.0005 * page.trail.mean_ms))
			shown.push(at);
	const labels = ["step", ...shown.map(at => page.trail.series[at])], rows = [];
	page.trail.columns.forEach((column, place) =>
		rows.push([column[0], ...shown.map(at => track.steps[place] > 0 ? Math.max(0, at === TRANSFER ? Math.min(track.series[at][place], restOf(track, place)) : track.series[at][place]) : null)]));
	if (!shown.length)
		return false;
	chart("phases", holder, labels, rows, { stackedGraph: true, fillAlpha: 0.85, strokeWidth: 0.5, colors: labels.slice(1).map(colourOf) });
	return labels.slice(1);
}

/* Kinds of time of which the rank has more than its control, the largest excess first. */
function excesses(track) {
	const list = [], [first, last] = comparedColumns(track);
	for (let kind = 0; kind < KINDS; kind++) {
		let own = 0, control = 0;
		for (let place = first; place <= last; place++) {
			own += track.series[OWN + kind][place] * track.steps[place];
			control += track.series[CONTROL + kind][place] * track.steps[place];
		}
		list.push({ kind, name: page.trail.series[OWN + kind], own, excess: own - control });
	}
	const total = list.reduce((sum, one) => sum + Math.max(0, one.excess), 0);
	return list.filter(one => one.excess > 0.05 * total && one.excess > 0).sort((one, other) => other.excess - one.excess).slice(0, 3);
}

/* The steps in which the rank in focus is held against its control: the incident's, or those in view. */
function comparedColumns(track) {
	const verdict = verdictInFocus(), steps = verdict && verdict.ranks.includes(view.rank) ? [verdict.first_step, verdict.last_step] : windowOf();
	return [columnOf(steps[0]), Math.min(columnOf(steps[1]), track.steps.length - 1)];
}

/* Sampled metrics of which something is known there, those first in which the rank differs most from its control. */
function sampledKinds(track) {
	const [first, last] = comparedColumns(track), base = page.trail.series.length, many = page.trail.sampled.length;
	const mean = line => {
		const known = [...line.subarray(first, last + 1)].filter(Number.isFinite);
		return known.length ? known.reduce((sum, value) => sum + value, 0) / known.length : NaN;
	};
	return page.trail.sampled.map(([name, unit], kind) => {
		const own = mean(track.series[base + kind]), control = mean(track.series[base + many + kind]), most = Math.max(Math.abs(own), Math.abs(control));
		return { kind, name, unit, own, control, share: most > 0 ? Math.abs(own - control) / most : 0 };
	}).filter(one => Number.isFinite(one.own)).sort((one, other) => other.share - one.share);
}

const SAMPLED_SHOWN = 4, SAMPLED_SHARE = 0.1;
const differing = kinds => kinds.filter(one => one.share >= SAMPLED_SHARE).slice(0, SAMPLED_SHOWN);

/* A rank's line in red, its control's in blue, in a part of its own; lines: places of their series. */
function drawPair(holder, id, title, about, track, lines, more) {
	let part = byId(id);
	if (!part) {
		part = made("div", { id }, made("h3", {}, title, made("small", {}, about)), made("div", { class: "chart" }));
		holder.append(part);
	}
	const rows = page.trail.columns.map((column, place) => [column[0], ...lines.map(line => track.steps[place] > 0 && Number.isFinite(track.series[line][place]) ? track.series[line][place] : null)]);
	chart(id, part.lastChild, ["step", "this rank", "control"], rows, Object.assign({ colors: [`rgb(${style("--own")})`, `rgb(${style("--held")})`] }, more));
}

function drawEvidenceCharts(track, holder) {
	for (const { kind, name } of excesses(track))
		drawPair(holder, "evidence-" + name.replace(/\W/g, "-"), `${name === "work" ? "own work" : name}, ms per step `, "red: this rank; blue: its control, healthy ranks in the same steps", track, [OWN + kind, CONTROL + kind], {});
}

/* What samplers counted, beside the median of ranks that do the same. */
function drawSampled(track, holder) {
	const kinds = sampledKinds(track), shown = differing(kinds), base = page.trail.series.length, many = page.trail.sampled.length;
	for (const { kind, name, unit } of shown) {
		const told = value => `${Number(value.toPrecision(3))} ${unit}`;
		drawPair(holder, `sampled-${kind}`, `${name}${unit ? ", " + unit : ""} `, "sampled; red: this rank; blue: the median of others that do the same", track, [base + kind, base + many + kind],
			{ connectSeparatedPoints: true, axes: { x: axisOfSteps(), y: { axisLabelWidth: LEFT - 6, axisLabelFormatter: told, valueFormatter: told, pixelsPerLabel: 30 } } });
	}
	const others = kinds.filter(one => !shown.includes(one)).map(one => one.name), about = byId("sampled-about") || made("p", { id: "sampled-about", class: "none" });
	about.textContent = !kinds.length ? "Not measurable: nothing was sampled of this rank in these steps." : others.length ? `Also sampled, and not shown since it differs less from the control: ${others.join(", ")}.` : "";
	holder.append(about);
}

let chartsRank = null;
function drawRankCharts() {
	const holder = byId("rank-charts"), track = page.trail && page.trail.trackOf.get(view.rank);
	const wanted = track ? `${view.rank}:${[...excesses(track), ...differing(sampledKinds(track))].map(one => one.name)}` : "";
	if (!track) {
		clearRankCharts();
		holder.replaceChildren(made("p", { class: "none" }, view.rank === null ? "No rank is in focus." : page.trail ? whyNoTrack(view.rank) : WHY_NONE));
		return;
	}
	if (wanted !== chartsRank) {
		clearRankCharts();
		holder.append(made("h3", { id: "phases-head" }), made("div", { class: "chart", id: "phases" }));
		chartsRank = wanted;
	}
	const names = drawPhases(track, byId("phases"));
	byId("phases-head").replaceChildren("what its steps are made of, ms ");
	for (const name of names || []) {
		const chip = made("span", { class: "chip" });
		chip.style.background = colourOf(name);
		byId("phases-head").append(chip, made("small", {}, name === "wait" ? "waits for others" : name));
	}
	drawEvidenceCharts(track, holder);
	drawSampled(track, holder);
}

function clearRankCharts() {
	for (const [name, old] of [...charts])
		if (name !== "steps") {
			old.graph.destroy();
			charts.delete(name);
		}
	byId("rank-charts").replaceChildren();
	chartsRank = null;
}
