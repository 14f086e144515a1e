/* What happened, in sentences, with what to do; the one in focus is what all charts below show. */
function jobFacts() {
	const { job, summary } = page.report, facts = [];
	byId("job-name").textContent = job.id ? plainText(job.id) : "slowrank";
	document.title = `slowrank: ${plainText(job.id)}`;
	facts.push(`${count(page.rank_count, "rank")} on ${count(job.nodes, "node")}, ${count(job.steps, "step")}`);
	if (job.steps) {
		const from = new Date(job.start_unix_ns / 1e6).toISOString().replace("T", " ").slice(0, 19);
		facts.push(`from ${from} to ${clock(job.end_unix_ns / 1e6)} UTC`);
		facts.push(`median step ${time(summary.step_ms_median)}, ${time(summary.step_ms_ideal)} if no rank held the others up`);
		facts.push(`${number(Math.round(summary.wasted_rank_seconds))} rank-seconds wasted`);
	}
	byId("job-facts").textContent = facts.join("; ") + ".";
}

/* The worst first, as in the report as text. */
function sortedVerdicts() {
	const worse = verdict => [verdict.ended ? 1 : 0, verdict.class === "hang" ? 0 : 1, -verdict.slowdown, verdict.id];
	return [...page.report.verdicts].sort((one, other) => {
		const a = worse(one), b = worse(other), at = a.findIndex((value, place) => value !== b[place]);
		return at < 0 ? 0 : a[at] - b[at];
	});
}

function noVerdict() {
	const unseen = page.report.coverage.sources.filter(source => source.state !== "on").length;
	const seen = page.report.job.steps > 0 && !page.report.coverage.enqueue_only;
	const what = page.report.job.steps > 0 ? `No straggler found in ${count(page.report.job.steps, "step")} of ${count(page.rank_count, "rank")}.`
		: "Nothing can be said of this job: no step was seen.";
	const when = unseen ? `${count(unseen, "source")} of evidence could not be seen, or not in full: see Coverage.` : "All sources of evidence were seen in full.";
	return made("div", { class: "incident " + (seen ? "fine" : "unsure") }, made("span", { class: "what" }, what), made("span", { class: "when" }, when));
}

function whenWords(verdict) {
	const from = clock(verdict.onset_unix_ns / 1e6), until = verdict.ended ? `to ${clock(verdict.end_unix_ns / 1e6)} UTC`
		: verdict.unmeasured_since_step ? `UTC, not measured since step ${verdict.unmeasured_since_step}` : "UTC, goes on";
	const told = { slowdown: "too small", duration: "too short", "known-imbalance": "known imbalance" }[verdict.not_alerted];
	const waited = verdict.victim_count ? ` ${count(verdict.victim_count, "rank")} waited.` : "";
	return `Incident ${verdict.id}: ${from} ${until}; confidence ${Math.round(verdict.confidence * 100)} %.${waited}${told ? ` No alert: ${told}.` : ""}`;
}

function drawIncidents() {
	const verdicts = sortedVerdicts(), list = byId("incidents");
	const cards = verdicts.map(verdict => {
		const told = page.incidentOf.get(verdict.id), card = made("button", { class: "incident" + (verdict.ended || verdict.unmeasured_since_step ? " ended" : ""), type: "button", id: "incident-" + verdict.id });
		card.append(made("span", { class: "what" }, plainText(told.sentence) + "."), made("span", { class: "todo" }, told.advice + "."), made("span", { class: "when" }, whenWords(verdict)));
		card.setAttribute("aria-current", String(view.incident === verdict.id));
		card.addEventListener("click", () => focusIncident(verdict.id));
		return card;
	});
	const focused = document.activeElement && document.activeElement.id;
	list.replaceChildren(...(cards.length ? cards : [noVerdict()]));
	if (focused && focused.startsWith("incident-") && byId(focused))
		byId(focused).focus();
}

const verdictInFocus = () => page.report.verdicts.find(verdict => verdict.id === view.incident);
