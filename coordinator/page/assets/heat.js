/* The map of ranks and steps. Red: late by itself, so that others waited. Blue: waits for others, or is late because of them. */
const TOP = 12, BOTTOM = 34, RANKS_ALONE = 256, LEAST_SHARE = 0.02, POWER = 0.8;
const heat = { lines: [], cursor: null, drag: null };

/* Rows of the map in view, as ranges of the data's rows: ranks, or of many, nodes. */
function heatLines() {
	const rows = page.trail.rows, lines = [];
	if (page.trail.row_is !== "rank" || view.r1 - view.r0 <= RANKS_ALONE) {
		for (let row = view.r0; row < view.r1; row++)
			lines.push([row, row + 1]);
		return { lines, nodes: page.trail.row_is !== "rank" };
	}
	for (let row = view.r0; row < view.r1; row++) {
		const last = lines[lines.length - 1];
		if (last && rows[row][2] === rows[last[0]][2] && rows[row][2])
			last[1] = row + 1;
		else
			lines.push([row, row + 1]);
	}
	return { lines, nodes: true };
}

/* The largest value of some rows, for each column of a stretch; read where eight rows are one wherever that is possible. */
function largest(levels, from, to, first, end, into) {
	const columns = page.trail.columns.length, size = end - first;
	into.fill(0);
	for (let row = from, at = levels.length - 1; row < to;) {
		while (at > 0 && (row + levels[at].fold > to || row % levels[at].fold))
			at--;
		while (at + 1 < levels.length && row + levels[at + 1].fold <= to && row % levels[at + 1].fold === 0)
			at++;
		const { bytes, fold } = levels[at], begin = row / fold * columns + first;
		for (let column = 0; column < size; column++)
			if (bytes[begin + column] > into[column])
				into[column] = bytes[begin + column];
		row += fold;
	}
	return into;
}

function heatArea() {
	const canvas = byId("heat");
	return { x: LEFT, y: TOP, width: Math.max(50, canvas.clientWidth - LEFT - RIGHT), height: Math.max(20, canvas.clientHeight - TOP - BOTTOM) };
}

/* So many lines are one line of pixels, where there are more of them: eight rows at a time are read faster. */
function linesInPixel(area) {
	const least = Math.ceil(heat.lines.length / area.height);
	return least > 8 ? Math.ceil(least / 8) * 8 : Math.max(1, least);
}

/* Colours by the values of a cell: red, green and blue of each of 256 values, on the page's background. */
function ramp(name, full, shares, back) {
	const colour = style(name).split(",").map(Number);
	return shares.map(share => {
		const t = share < LEAST_SHARE ? 0 : Math.min(1, (share / full) ** POWER);
		return back.map((part, at) => part + (colour[at] - part) * t);
	});
}

/* A fault of a few percent can be seen, noise hardly; half a step late, or a whole one waited, is all colour. */
function colourCells(image, per) {
	const { own, held, meanMs } = page.trail, wide = view.c1 - view.c0;
	const dark = matchMedia("(prefers-color-scheme: dark)").matches, back = dark ? [30, 32, 38] : [250, 250, 248], unseen = dark ? [58, 61, 68] : [220, 220, 220];
	const shares = MICROSECONDS.map(us => us / 1000 / meanMs), red = ramp("--own", 0.5, shares, back), blue = ramp("--held", 1, shares, back);
	const ownMost = new Uint8Array(wide), heldMost = new Uint8Array(wide), pixels = image.data;
	for (let y = 0, at = 0; y < image.height; y++) {
		const from = heat.lines[y * per][0], to = heat.lines[Math.min(heat.lines.length, (y + 1) * per) - 1][1];
		largest(own, from, to, view.c0, view.c1, ownMost);
		largest(held, from, to, view.c0, view.c1, heldMost);
		for (let x = 0; x < image.width; x++, at += 4) {
			const end = Math.max(Math.floor(x * wide / image.width) + 1, Math.floor((x + 1) * wide / image.width));
			let one = 0, other = 0;
			for (let column = Math.floor(x * wide / image.width); column < end; column++) {
				one = Math.max(one, ownMost[column]);
				other = Math.max(other, heldMost[column]);
			}
			const colour = one === 0 && other === 0 ? unseen : shares[one] * 3 >= shares[other] ? red[one] : blue[other];
			pixels[at] = colour[0];
			pixels[at + 1] = colour[1];
			pixels[at + 2] = colour[2];
			pixels[at + 3] = 255;
		}
	}
}

function lineName(line) {
	const [from, to] = heat.lines[line], row = page.trail.rows[from], last = page.trail.rows[to - 1];
	if (row[0] < 0)
		return "not seen";
	if (!heat.nodes)
		return `rank ${row[0]}`;
	return row[2] || `ranks ${row[0]}-${last[1]}`;
}

/* The next one of 1, 2, 5, 10, 20, ... */
function roundStep(least) {
	const power = 10 ** Math.floor(Math.log10(Math.max(1, least)));
	return [1, 2, 5, 10].map(digit => digit * power).find(value => value >= least) || 1;
}

function drawAxes(canvas, area) {
	const high = area.height / heat.lines.length, every = Math.ceil(14 / high), columns = page.trail.columns, wide = view.c1 - view.c0;
	canvas.fillStyle = style("--soft");
	canvas.font = "12px system-ui, sans-serif";
	canvas.textAlign = "right";
	canvas.textBaseline = "middle";
	for (let line = 0; line < heat.lines.length; line += every)
		canvas.fillText(lineName(line), area.x - 6, area.y + (line + 0.5) * high, LEFT - 10);
	canvas.textAlign = "center";
	canvas.textBaseline = "top";
	const ticks = Math.max(1, Math.floor(area.width / 110)), step = roundStep(wide / ticks);
	for (let place = Math.ceil(view.c0 / step) * step; place < view.c1; place += step) {
		const x = area.x + (place - view.c0 + 0.5) * area.width / wide;
		canvas.fillRect(Math.round(x), area.y + area.height, 1, 4);
		canvas.fillText(String(columns[place][0]), x, area.y + area.height + 6);
		canvas.fillText(clock(columns[place][3]), x, area.y + area.height + 19);
	}
	canvas.textAlign = "right";
	canvas.fillText("step", area.x - 30, area.y + area.height + 6);
	canvas.fillText("UTC", area.x - 30, area.y + area.height + 19);
}

/* Incidents above the map, the rank in focus beside it, the cell under the cursor in it. */
function drawMarks(canvas, area) {
	const wide = view.c1 - view.c0, scale = area.width / wide, high = area.height / heat.lines.length;
	for (const verdict of page.report.verdicts) {
		const from = Math.max(0, columnOf(verdict.first_step) - view.c0), to = Math.min(wide, columnOf(verdict.last_step) + 1 - view.c0);
		canvas.fillStyle = `rgba(${style("--own")}, ${verdict.id === view.incident ? 1 : 0.4})`;
		if (to > from)
			canvas.fillRect(area.x + from * scale, 2, Math.max(2, (to - from) * scale), 6);
	}
	canvas.strokeStyle = style("--line");
	canvas.strokeRect(area.x - 0.5, area.y - 0.5, area.width + 1, area.height + 1);
	const row = view.rank === null ? -1 : rowOfRank(view.rank), line = row < 0 ? -1 : heat.lines.findIndex(([from, to]) => row >= from && row < to);
	if (line >= 0) {
		canvas.fillStyle = style("--text");
		canvas.fillRect(area.x - 4, area.y + line * high, 3, Math.max(3, high));
	}
	if (heat.cursor) {
		canvas.strokeStyle = style("--text");
		canvas.strokeRect(area.x + (heat.cursor.column - view.c0) * scale, area.y + heat.cursor.line * high, Math.max(3, scale), Math.max(3, high));
	}
	if (heat.drag && heat.drag.to) {
		const { from, to } = heat.drag;
		canvas.strokeStyle = style("--text");
		canvas.strokeRect(Math.min(from.x, to.x), Math.min(from.y, to.y), Math.abs(to.x - from.x), Math.abs(to.y - from.y));
	}
}

/* Which of the data's rows has a rank. */
function rowOfRank(rank) {
	if (page.trail.row_is === "rank")
		return rank < page.trail.rows.length ? rank : -1;
	return page.trail.rows.findIndex(row => row[0] <= rank && rank <= row[1]);
}

function drawHeat() {
	const canvas = byId("heat"), begun = performance.now(), shown = heatLines();
	heat.lines = shown.lines;
	heat.nodes = shown.nodes;
	canvas.style.height = Math.min(460, Math.max(120, heat.lines.length * 26) + TOP + BOTTOM) + "px";
	const ratio = devicePixelRatio || 1, area = heatArea();
	canvas.width = canvas.clientWidth * ratio;
	canvas.height = canvas.clientHeight * ratio;
	const per = linesInPixel(area), image = new ImageData(Math.max(1, Math.min(view.c1 - view.c0, Math.floor(area.width))), Math.ceil(heat.lines.length / per));
	colourCells(image, per);
	const picture = document.createElement("canvas");
	picture.width = image.width;
	picture.height = image.height;
	picture.getContext("2d").putImageData(image, 0, 0);
	heat.picture = picture;
	heat.pictureLines = heat.lines.length / per;
	paintHeat();
	canvas.dataset.drawnMs = (performance.now() - begun).toFixed(1);
	byId("heat-about").textContent = `${heat.nodes ? "each row the worst rank of " + (page.trail.row_is === "nodes" ? "some nodes" : "a node") + "; click or zoom in for its ranks" : "a row for each rank"}` +
		(page.trail.steps_in_column > 1 ? `; each column the worst of ${page.trail.steps_in_column} steps` : "");
	byId("heat-back").disabled = view.c0 === 0 && view.c1 === page.trail.columns.length && view.r0 === 0 && view.r1 === page.trail.rows.length;
}

/* The picture as it is, with axes and marks: what a moving cursor needs. */
function paintHeat() {
	const canvas = byId("heat"), ratio = devicePixelRatio || 1, area = heatArea(), context = canvas.getContext("2d");
	context.setTransform(ratio, 0, 0, ratio, 0, 0);
	context.clearRect(0, 0, canvas.clientWidth, canvas.clientHeight);
	context.imageSmoothingEnabled = false;
	context.drawImage(heat.picture, 0, 0, heat.picture.width, heat.pictureLines, area.x, area.y, area.width, area.height);
	drawAxes(context, area);
	drawMarks(context, area);
}

function cellUnder(event) {
	const area = heatArea(), bounds = byId("heat").getBoundingClientRect(), x = event.clientX - bounds.left, y = event.clientY - bounds.top;
	const within = (value, low, size) => Math.min(size - 1, Math.max(0, Math.floor(value * size / low)));
	return { x, y, column: view.c0 + within(x - area.x, area.width, view.c1 - view.c0), line: within(y - area.y, area.height, heat.lines.length) };
}

/* The rank of a cell that was late by itself: of a node the worst one, where that is known. */
function rankOfCell({ line, column }) {
	const [from, to] = heat.lines[line], { rows, own, who, columns } = page.trail, size = columns.length;
	let best = from;
	for (let row = from; row < to; row++)
		if (own[0].bytes[row * size + column] > own[0].bytes[best * size + column])
			best = row;
	const offset = who ? who[best * size + column] : 0;
	return rows[best][0] < 0 ? null : rows[best][0] + (offset < 255 ? offset : 0);
}

function tellCell(cell) {
	const [from, to] = heat.lines[cell.line], { own, held, columns, rows } = page.trail, column = columns[cell.column];
	const most = levels => largest(levels, from, to, cell.column, cell.column + 1, new Uint8Array(1))[0], one = most(own), other = most(held), rank = rankOfCell(cell);
	const name = heat.nodes ? `${lineName(cell.line)} (worst: rank ${rank})` : `${lineName(cell.line)}${rows[from][2] ? " on " + rows[from][2] : ""}`;
	const what = one || other ? `late by itself ${time(MICROSECONDS[one] / 1000)}, waited or late for others ${time(MICROSECONDS[other] / 1000)}` : "not judged: not measurable here";
	byId("heat-told").textContent = `${name}, ${stepWords(column)} at ${clock(column[3])} UTC: ${what}.`;
}

function chooseCell(cell) {
	heat.cursor = cell;
	const column = page.trail.columns[cell.column], rank = rankOfCell(cell);
	if (heat.nodes && page.trail.row_is === "rank" && heat.lines.length > 1) {
		const [from, to] = heat.lines[cell.line];
		setView({ r0: from, r1: to, rank, step: nearestWalk(column[0]) });
	} else {
		setView({ rank, step: nearestWalk(column[0]) });
	}
	tellCell(cell);
}

function zoomHeat(one, other) {
	const lines = [one.line, other.line].sort((a, b) => a - b), columns = [one.column, other.column].sort((a, b) => a - b);
	setView({ c0: columns[0], c1: columns[1] + 1, r0: heat.lines[lines[0]][0], r1: heat.lines[lines[1]][1] });
	heat.cursor = null;
}

/* A quarter of what is shown, around the cell; at last one step. */
function zoomIn({ line, column }) {
	const wide = Math.max(1, Math.ceil((view.c1 - view.c0) / 4)), high = Math.max(1, Math.ceil(heat.lines.length / 4));
	const c0 = Math.min(Math.max(view.c0, column - (wide >> 1)), view.c1 - wide), l0 = Math.min(Math.max(0, line - (high >> 1)), heat.lines.length - high);
	setView({ c0, c1: c0 + wide, r0: heat.lines[l0][0], r1: heat.lines[l0 + high - 1][1] });
}

/* Four times as much. */
function zoomOut() {
	const columns = page.trail.columns.length, rows = page.trail.rows.length, grow = (low, high, most) => {
		const by = Math.ceil((high - low) * 1.5);
		return [Math.max(0, low - by), Math.min(most, high + by)];
	};
	const [c0, c1] = grow(view.c0, view.c1, columns), [r0, r1] = grow(view.r0, view.r1, rows);
	setView({ c0, c1, r0, r1 });
	heat.cursor = null;
}

function heatKey(event) {
	if (!page || !page.trail || !page.trail.rows.length)
		return;
	const cell = heat.cursor && heat.lines[heat.cursor.line] ? heat.cursor : { line: 0, column: view.c0 };
	const to = (line, column) => {
		heat.cursor = { line: Math.min(heat.lines.length - 1, Math.max(0, line)), column: Math.min(view.c1 - 1, Math.max(view.c0, column)) };
		tellCell(heat.cursor);
		paintHeat();
	};
	const moves = { ArrowLeft: () => to(cell.line, cell.column - 1), ArrowRight: () => to(cell.line, cell.column + 1), ArrowUp: () => to(cell.line - 1, cell.column), ArrowDown: () => to(cell.line + 1, cell.column),
		Enter: () => { chooseCell(cell); zoomIn(cell); }, " ": () => chooseCell(cell), Escape: zoomOut };
	if (!moves[event.key])
		return;
	moves[event.key]();
	event.preventDefault();
}

function listenHeat() {
	const canvas = byId("heat");
	canvas.addEventListener("pointerdown", event => { if (page && page.trail) heat.drag = { from: cellUnder(event), to: null }; });
	canvas.addEventListener("pointermove", event => {
		if (!page || !page.trail)
			return;
		const cell = cellUnder(event);
		heat.cursor = cell;
		if (heat.drag && Math.abs(cell.x - heat.drag.from.x) + Math.abs(cell.y - heat.drag.from.y) > 8)
			heat.drag.to = cell;
		tellCell(cell);
		paintHeat();
	});
	canvas.addEventListener("pointerup", event => {
		const drag = heat.drag;
		heat.drag = null;
		if (drag && drag.to)
			zoomHeat(drag.from, drag.to);
		else if (drag)
			chooseCell(cellUnder(event));
	});
	canvas.addEventListener("pointerleave", () => { if (heat.picture && !heat.drag) { heat.cursor = null; paintHeat(); } });
	canvas.addEventListener("keydown", heatKey);
	byId("heat-back").addEventListener("click", () => setView({ c0: 0, c1: page.trail.columns.length, r0: 0, r1: page.trail.rows.length }));
	for (const [name, text] of [["own", "late by itself: others waited for it"], ["held", "waits for others, or is late because of them"], ["unseen", "not measurable"]])
		byId("heat-key").append(made("span", { class: "swatch " + name }), text);
}
