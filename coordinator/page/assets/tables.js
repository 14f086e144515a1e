/* What stands in tables: evidence, costs, kernels, ranks, coverage. */
const fixed = (value, digits) => Number.isFinite(value) ? value.toFixed(digits) : "?";

function table(heads, rows) {
	const head = made("tr", {}), body = made("tbody", {});
	const cell = (name, value) => typeof value === "number" || (value && value.number) ? made(name, { class: "number" }, typeof value === "number" ? fixed(value, 2) : value.number) : made(name, {}, value instanceof Node ? value : plainText(value));
	heads.forEach((text, at) => head.append(made("th", rows.length && (typeof rows[0][at] === "number" || rows[0][at].number) ? { class: "number" } : {}, text)));
	for (const row of rows) {
		const line = made("tr", row.named ? { class: "named" } : {});
		row.forEach(value => line.append(cell("td", value)));
		body.append(line);
	}
	return made("table", {}, made("thead", {}, head), body);
}

const none = text => made("p", { class: "none" }, text);
const whole = value => ({ number: number(value) });

/* Two bars: the rank's, and its control's. */
function meter(own, control, most) {
	const svg = document.createElementNS(SVG_NAMES, "svg"), width = value => (most > 0 ? Math.max(0.5, 120 * value / most) : 0).toFixed(1);
	svg.setAttribute("class", "meter");
	svg.setAttribute("viewBox", "0 0 120 12");
	svg.setAttribute("preserveAspectRatio", "none");
	drawn("rect", { class: "own", x: 0, y: 0, width: width(own), height: 6 }, svg);
	drawn("rect", { class: "held", x: 0, y: 6, width: width(control), height: 6 }, svg);
	return svg;
}

function drawEvidence() {
	const verdict = verdictInFocus(), holder = byId("evidence");
	byId("rank-about").textContent = view.rank === null ? "" : [hostOf(view.rank) && "on " + hostOf(view.rank), page.rankOf.get(view.rank) && "pid " + page.rankOf.get(view.rank).pid].filter(Boolean).join(", ");
	if (!verdict || !(verdict.ranks.includes(view.rank) || !verdict.ranks.length)) {
		holder.replaceChildren();
		return;
	}
	const most = Math.max(...verdict.evidence.map(one => Math.max(one.overlap_ms_per_step, one.control_ms_per_step)));
	const rows = verdict.evidence.map(one => [one.kind, one.overlap_ms_per_step, one.control_ms_per_step, meter(one.overlap_ms_per_step, one.control_ms_per_step, most), one.detail]);
	const parts = [made("h3", {}, "evidence ", made("small", {}, "of incident " + verdict.id + ", beside healthy ranks of the same steps: the control"))];
	parts.push(rows.length ? table(["for", "rank, ms/step", "control, ms/step", "", ""], rows) : none("None beyond the timing of the collectives."));
	if (verdict.where)
		parts.push(made("p", {}, plainText(verdict.where.text)));
	if (verdict.rejected.length)
		parts.push(made("details", {}, made("summary", {}, `${count(verdict.rejected.length, "cause")} ruled out, or not measurable`), table(["not", "why"], verdict.rejected.map(one => [one.kind, one.why]))));
	holder.replaceChildren(...parts);
}

function drawCosts() {
	const rows = page.report.without.filter(cost => cost.slowdown >= 1.005).sort((one, other) => other.slowdown - one.slowdown)
		.map(cost => [`${cost.what} ${cost.name}`, cost.step_ms_without, { number: fixed(cost.slowdown, 3) }, { number: fixed(cost.share * 100, 0) }, { number: fixed(cost.wasted_rank_seconds, 1) }]);
	byId("costs").replaceChildren(rows.length ? table(["without", "step, ms", "slow-down", "share, %", "rank-seconds"], rows) : none("No part of the job costs half a percent of the step."));
}

function drawKernels() {
	const looked = page.report.ranks.filter(rank => rank.look), names = new Map();
	if (!looked.length) {
		const why = page.report.coverage.sources.filter(source => /kernel|cupti|nvml|device/.test(source.name) && source.state !== "on").map(source => `${source.name}: ${source.why || source.state}`);
		byId("kernels").replaceChildren(none("Not measured: no rank was looked at. Ranks on GPUs are, once one is slow and it is not known why." + (why.length ? ` (${plainText(why.join("; "))})` : "")));
		return;
	}
	for (const rank of looked)
		for (const kernel of rank.look.kernels)
			names.set(kernel.name, Math.max(names.get(kernel.name) || 0, kernel.ms));
	const shown = looked.slice(0, 8), ms = (rank, name) => (rank.look.kernels.find(kernel => kernel.name === name) || { ms: 0 }).ms;
	const rows = [...names].sort((one, other) => other[1] - one[1]).slice(0, 24).map(([name]) => [name.length > 100 ? name.slice(0, 99) + "\u2026" : name, ...shown.map(rank => ms(rank, name))]);
	rows.unshift(["all kernels", ...shown.map(rank => rank.look.kernel_ms)], ["copies", ...shown.map(rank => rank.look.copy_ms)], ["device idle", ...shown.map(rank => rank.look.idle_ms)]);
	byId("kernels").replaceChildren(table(["kernel", ...shown.map(rank => `rank ${rank.rank}`)], rows));
}

function drawRanks() {
	const named = new Set(page.report.verdicts.flatMap(verdict => verdict.ranks)), most = 16;
	const sorted = [...page.report.ranks].sort((one, other) => named.has(other.rank) - named.has(one.rank) || other.own_excess_ms_per_step - one.own_excess_ms_per_step);
	const rows = sorted.slice(0, most).map(rank => {
		const phases = rank.step_ms, row = [whole(rank.rank), rank.host, { number: String(rank.pid) }, whole(rank.role), whole(rank.steps), phases.input, phases.compute, phases.host, phases.comm_wait, phases.comm_transfer, rank.own_excess_ms_per_step, rank.inherited_ms_per_step];
		return Object.assign(row, { named: named.has(rank.rank) });
	});
	const left = page.rank_count - rows.length, parts = [rows.length ? table(["rank", "host", "pid", "role", "steps", "input", "compute", "host", "wait", "transfer", "own excess", "inherited"], rows) : none("No rank was seen.")];
	if (left > 0)
		parts.push(none(`and ${number(left)} more (the JSON report has all)`));
	byId("ranks").replaceChildren(...parts);
}

function drawCoverage() {
	const coverage = page.report.coverage, order = { "not measurable": 0, off: 1, degraded: 2, on: 3 };
	const rows = [...coverage.sources].sort((one, other) => (order[one.state] ?? 0) - (order[other.state] ?? 0)).map(source => [source.name, source.state, `${source.probes_on} of ${source.probes}`, source.why]);
	const facts = [`${number(coverage.events)} events, ${number(coverage.dropped)} dropped; ${number(coverage.steps_incomplete)} of ${number(page.report.job.steps)} steps incomplete; clock error at most ${coverage.clock_error_us} us; the worst probe costs ${fixed(coverage.probe_cpu_percent, 2)} % of a core.`];
	if (coverage.enqueue_only)
		facts.push("Some collectives were seen by their enqueue time only: these were not judged.");
	if (coverage.record_truncated)
		facts.push("The record is cut short: this is what could be read of it.");
	if (coverage.ranks_missing)
		facts.push(`Ranks that were not seen: ${coverage.ranks_missing}.`);
	for (const part of coverage.sums_alone || [])
		facts.push(`From ${clock(part.start_unix_ns / 1e6)} to ${clock(part.end_unix_ns / 1e6)} UTC the record has sums alone: charts show nothing of it.`);
	if (page.trail && page.trail.left_out)
		facts.push(`${count(page.trail.left_out, "step")} left out of the charts, for want of memory.`);
	byId("coverage").replaceChildren(table(["source", "state", "probes", "why"], rows), ...facts.map(text => made("p", {}, plainText(text))));
}
