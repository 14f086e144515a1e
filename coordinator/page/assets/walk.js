/* One step as a timeline: who waited for whom, and the walk from the step's end back to who held it up. */
const SVG_NAMES = "http://www.w3.org/2000/svg", LANE = 22;

function drawn(name, attributes, parent, text) {
	const element = document.createElementNS(SVG_NAMES, name);
	for (const key in attributes)
		element.setAttribute(key, attributes[key]);
	if (text)
		element.textContent = text;
	parent.appendChild(element);
	return element;
}

/* The step that is kept nearest to a step: of each stretch the worst one is. */
function nearestWalk(step) {
	const walks = page.trail ? page.trail.walks : [];
	if (!walks.length)
		return null;
	const column = page.trail.columns[columnOf(step)], within = walks.filter(walk => walk.step >= column[0] && walk.step < column[0] + column[1]);
	return (within.length ? within : walks).reduce((best, walk) => Math.abs(walk.step - step) < Math.abs(best.step - step) ? walk : best).step;
}

/* When the last of those that are shown came to each instance. */
function lastArrivals(walk) {
	const last = new Map();
	for (const row of walk.ranks)
		for (const [arrival, , instance] of row.cells)
			if (instance >= 0)
				last.set(instance, Math.max(arrival, last.has(instance) ? last.get(instance) : -Infinity));
	return last;
}

function drawRow(svg, row, line, scale, last, operations, length) {
	const y = line * LANE + 4, height = LANE - 8, x = us => LEFT + Math.min(length, Math.max(0, us)) * scale;
	const bar = (kind, from, to, title) => {
		if (to > from)
			drawn("title", {}, drawn("rect", { class: kind, x: x(from).toFixed(1), y, width: Math.max(0.5, x(to) - x(from)).toFixed(1), height }, svg), title);
	};
	let left = 0;
	for (const [arrival, departure, instance, operation, , held] of [...row.cells].sort((one, other) => one[0] - other[0])) {
		const came = Math.min(departure, Math.max(arrival, instance >= 0 ? last.get(instance) : arrival)), name = operations[operation];
		if (!row.cut || left > 0)
			bar("own", left, arrival, `rank ${row.rank}: its own time before ${name}, ${time((arrival - left) / 1000)}`);
		bar("waiting", arrival, came, `rank ${row.rank}: waits in ${name} for ${time((came - arrival) / 1000)}`);
		bar("transfer", came, departure - held, `rank ${row.rank}: ${name}, ${time((departure - held - came) / 1000)}`);
		bar("held", departure - held, departure, `rank ${row.rank}: off its CPU in ${name}, ${time(held / 1000)}`);
		left = Math.max(left, departure);
	}
}

/* The hops, the last one first: own time of a rank, then down or up to the rank that it had waited for. */
function drawHops(svg, walk, lines, scale) {
	const x = us => LEFT + Math.min(walk.length_us, Math.max(0, us)) * scale, y = rank => lines.get(rank) * LANE + LANE / 2;
	walk.hops.forEach(([rank, , from, to], at) => {
		const before = walk.hops[at + 1];
		if (!lines.has(rank))
			return;
		drawn("path", { class: "hop", d: `M${x(from).toFixed(1)} ${y(rank)}H${x(to).toFixed(1)}` }, svg);
		if (before && before[0] !== rank && lines.has(before[0]))
			drawn("path", { class: "jump", d: `M${x(from).toFixed(1)} ${y(rank)}L${x(before[3]).toFixed(1)} ${y(before[0])}` }, svg);
	});
}

function tellWalk(walk, operations) {
	const parts = [`Step ${walk.step} took ${time(walk.length_us / 1000)}, from ${clock(walk.start_unix_ms)} UTC.`];
	const worst = [...walk.ranks].sort((one, other) => other.late_us - one.late_us)[0], total = new Map();
	for (const [rank, , from, to] of walk.hops)
		total.set(rank, (total.get(rank) || 0) + Math.max(0, to - from));
	if (worst && worst.late_us > 0)
		parts.push(`Rank ${worst.rank} made others wait ${time(worst.late_us / 1000)} for it.`);
	const most = [...total].sort((one, other) => other[1] - one[1])[0];
	if (most) {
		const cell = walk.ranks.flatMap(row => row.cells).find(one => one[2] === walk.hops[0][1]);
		parts.push(`Walked back from its end${cell ? ", the " + operations[cell[3]] : ""}, always to the rank that came last: ${time(most[1] / 1000)} of that way ${most[1] > 0 ? "is" : "are"} rank ${most[0]}'s own.`);
	}
	return parts.join(" ");
}

function drawWalk() {
	const walks = page.trail ? page.trail.walks : [], frame = byId("walk-frame"), walk = page.trail ? page.trail.walkOf.get(view.step) : null;
	byId("walk-choice").replaceChildren(...walks.map(one => new Option(`step ${one.step}`, String(one.step), false, one.step === view.step)));
	byId("walk-key").hidden = !walk;
	byId("walk-choice").hidden = !walks.length;
	byId("walk-about").textContent = walks.length ? "of each stretch of steps the worst one is kept" : "";
	if (!walk) {
		frame.replaceChildren();
		byId("walk-told").replaceChildren(made("span", { class: "none" }, walks.length ? view.step === null ? "No step is in focus." : "The step is on its way." : WHY_NONE));
		return;
	}
	const width = Math.max(600, frame.clientWidth || 1100), scale = (width - LEFT - RIGHT) / walk.length_us, last = lastArrivals(walk);
	const height = walk.ranks.length * LANE + 22, svg = document.createElementNS(SVG_NAMES, "svg"), lines = new Map(walk.ranks.map((row, line) => [row.rank, line]));
	svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
	svg.setAttribute("role", "img");
	const worst = Math.max(...walk.ranks.map(row => row.late_us));
	for (let tick = 0; tick <= 6; tick++) {
		const x = LEFT + (width - LEFT - RIGHT) * tick / 6;
		drawn("path", { class: "axis", d: `M${x} 0V${height - 18}` }, svg);
		drawn("text", { x, y: height - 5, "text-anchor": tick === 6 ? "end" : "middle" }, svg, time(walk.length_us * tick / 6000));
	}
	walk.ranks.forEach((row, line) => {
		drawn("text", { x: LEFT - 8, y: line * LANE + 15, "text-anchor": "end", class: row.late_us === worst && worst > 0 ? "worst" : "" }, svg, `rank ${row.rank}`);
		drawRow(svg, row, line, scale, last, page.trail.operations, walk.length_us);
	});
	drawHops(svg, walk, lines, scale);
	frame.replaceChildren(svg);
	byId("walk-told").textContent = tellWalk(walk, page.trail.operations) + (walk.rank_count > walk.ranks.length ? ` ${walk.ranks.length} of ${number(walk.rank_count)} ranks are drawn.` : "") +
		(walk.ranks.some(row => row.cut) ? " Of ranks with many calls, the last ones are drawn." : "");
}

function listenWalk() {
	for (const [name, text] of [["own", "its own time"], ["waiting", "waits for others"], ["transfer", "transfers"], ["held", "off its CPU in a call, while others wait for it"], ["walk", "the walk back from the step's end to who held it up"]])
		byId("walk-key").append(made("span", { class: "chip key-" + name }), text);
	byId("walk-choice").addEventListener("change", () => setView({ step: Number(byId("walk-choice").value) }));
}
