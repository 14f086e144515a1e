/* The map of ranks and steps. Red: late by itself, so that others waited. Blue: waits for others, or is late because of them. */
const TOP = 12, BOTTOM = 34, LEAST_SHARE = 0.02, POWER = 0.8;
const TILE = 256, FOLD = 4, LEVEL_MAX = 3, TILES_MAX = 256;
const heat = { lines: [], cursor: null, drag: null };

const foldOf = level => FOLD ** level;
const rowsOfLevel = level => Math.ceil(page.trail.rows.length / foldOf(level));

/* The level whose rows are as many as half the pixels, or more: of larger ones a line of the map is too high. */
function levelInView(area) {
	let level = 0;
	while (level < LEVEL_MAX && rowsOfLevel(level) > TILE && (view.r1 - view.r0) / foldOf(level + 1) >= area.height / 2)
		level++;
	return level;
}

/* Lines of the map in view, as ranges of the data's rows: of large jobs 4, 16 or 64 of them. */
function heatLines(level) {
	const fold = foldOf(level), lines = [];
	for (let row = Math.floor(view.r0 / fold) * fold; row < view.r1; row += fold)
		lines.push([Math.max(row, view.r0), Math.min(row + fold, view.r1)]);
	return lines;
}

/* A tile of a level: what is known of it, in the first columns of it; nothing at first. */
function tileAt(level, row, column) {
	const tiles = page.trail.tiles, key = `${level}/${row}/${column}`, planes = level === 0 && page.trail.row_is !== "rank" ? 3 : 2;
	const tile = tiles.get(key) || { column: column * TILE, known: 0, rows: Math.min(TILE, rowsOfLevel(level) - row * TILE), planes: null };
	if (!tile.planes)
		tile.planes = [...Array(planes)].map(() => new Uint8Array(tile.rows * TILE));
	tiles.delete(key);
	tiles.set(key, tile); /* the one that was used last comes last */
	return tile;
}

/* What brings the columns of a tile that are not known yet. */
async function loadTile(trail, tile, level, row) {
	const from = tile.known, until = Math.min(TILE, trail.column_count - tile.column), wide = until - from;
	const bytes = await part(trail, `heat/${level}/${row * TILE}-${row * TILE + tile.rows - 1}/${tile.column + from}-${tile.column + until - 1}`);
	tile.planes.forEach((plane, at) => {
		for (let line = 0; line < tile.rows; line++)
			plane.set(bytes.subarray((at * tile.rows + line) * wide, (at * tile.rows + line + 1) * wide), line * TILE + from);
	});
	tile.known = until - (trail !== page.trail); /* newer data came meanwhile: the last column may have changed */
}

/* Of the newest column more may have come since. */
function forgetNewest(tiles, columns) {
	for (const tile of tiles.values())
		tile.known -= tile.known > 0 && tile.column + tile.known === columns;
}

/* Loads of tiles of a level with some of the data's rows and some columns. */
function tilesToLoad(level, r0, r1, c0, c1) {
	const trail = page.trail, loads = [], fold = foldOf(level);
	for (let row = Math.floor(r0 / fold / TILE); row * TILE * fold < r1; row++)
		for (let column = Math.floor(c0 / TILE); column * TILE < c1; column++) {
			const tile = tileAt(level, row, column);
			if (tile.known < Math.min(TILE, trail.column_count - tile.column))
				loads.push(() => loadTile(trail, tile, level, row));
		}
	return loads;
}

/* Of tiles that were not used lately, those beyond what is kept go. */
function missingTiles() {
	const tiles = page.trail.tiles, loads = tilesToLoad(heat.level, view.r0, view.r1, view.c0, view.c1);
	for (const key of [...tiles.keys()].slice(0, Math.max(0, tiles.size - TILES_MAX)))
		tiles.delete(key);
	return loads;
}

/* The values of a plane (0: own, 1: held) of some rows of the level, the largest of each column of a stretch. */
function largest(plane, level, from, to, first, end, into) {
	into.fill(0);
	for (let block = Math.floor(first / TILE); block * TILE < end; block++) {
		const begin = Math.max(first, block * TILE), until = Math.min(end, (block + 1) * TILE);
		let tile = null, tileRow = -1;
		for (let row = from; row < to; row++) {
			if (Math.floor(row / TILE) !== tileRow) {
				tileRow = Math.floor(row / TILE);
				tile = page.trail.tiles.get(`${level}/${tileRow}/${block}`);
			}
			if (!tile)
				continue;
			const values = tile.planes[plane], at = (row - tileRow * TILE) * TILE - block * TILE;
			for (let column = begin; column < until; column++)
				if (values[at + column] > into[column - first])
					into[column - first] = values[at + column];
		}
	}
	return into;
}

/* The rows of the level that some lines are. */
const levelRows = (from, to) => [Math.floor(heat.lines[from][0] / foldOf(heat.level)), Math.floor((heat.lines[to - 1][1] - 1) / foldOf(heat.level)) + 1];

function heatArea() {
	const canvas = byId("heat");
	return { x: LEFT, y: TOP, width: Math.max(50, canvas.clientWidth - LEFT - RIGHT), height: Math.max(20, canvas.clientHeight - TOP - BOTTOM) };
}

/* So many lines are one line of pixels, where there are more of them. */
const linesInPixel = area => Math.max(1, Math.ceil(heat.lines.length / area.height));

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
	const meanMs = page.trail.mean_ms, wide = view.c1 - view.c0;
	const dark = matchMedia("(prefers-color-scheme: dark)").matches, back = dark ? [30, 32, 38] : [250, 250, 248], unseen = dark ? [58, 61, 68] : [220, 220, 220];
	const shares = MICROSECONDS.map(us => us / 1000 / meanMs), red = ramp("--own", 0.5, shares, back), blue = ramp("--held", 1, shares, back);
	const ownMost = new Uint8Array(wide), heldMost = new Uint8Array(wide), pixels = image.data;
	for (let y = 0, at = 0; y < image.height; y++) {
		const [from, to] = levelRows(y * per, Math.min(heat.lines.length, (y + 1) * per));
		largest(0, heat.level, from, to, view.c0, view.c1, ownMost);
		largest(1, heat.level, from, to, view.c0, view.c1, heldMost);
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
	const [from, to] = heat.lines[line], seen = page.trail.rows.slice(from, to).filter(row => row[0] >= 0);
	if (!seen.length)
		return "not seen";
	const first = seen[0], last = seen[seen.length - 1];
	if (first === last && (page.trail.row_is !== "rank" && first[2]))
		return first[2];
	return first[0] === last[1] ? `rank ${first[0]}` : `ranks ${first[0]}-${last[1]}`;
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

/* Which of the data's rows, which are in order of their ranks, has a rank. */
function rowOfRank(rank) {
	const rows = page.trail.rows;
	let low = 0, high = rows.length;
	while (low < high) {
		const middle = (low + high) >> 1;
		if (rows[middle][0] >= 0 && rows[middle][0] <= rank)
			low = middle + 1;
		else
			high = middle;
	}
	return low > 0 && rows[low - 1][1] >= rank ? low - 1 : -1;
}

function drawHeat() {
	const canvas = byId("heat"), begun = performance.now();
	canvas.style.height = Math.min(460, Math.max(120, (view.r1 - view.r0) * 26) + TOP + BOTTOM) + "px";
	const ratio = devicePixelRatio || 1, area = heatArea();
	heat.level = levelInView(area);
	heat.lines = heatLines(heat.level);
	heat.nodes = heat.level > 0 || page.trail.row_is !== "rank";
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
	const of = { rank: "rank", node: "node", nodes: "group of nodes" }[page.trail.row_is], fold = foldOf(heat.level);
	byId("heat-about").textContent = (heat.nodes ? `each row the worst ${of === "rank" ? "of" : "rank of"} ${fold > 1 ? count(fold, of) : "a " + of}` : "a row for each rank") + (fold > 1 ? "; click or zoom in for more" : "") +
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

/* The rank that was late by itself in a column: of several rows the worst one, of a node the one that is known to be; null: that is not known here. */
function rankOfRows(from, to, column) {
	const rows = page.trail.rows, tile = page.trail.tiles.get(`0/${Math.floor(from / TILE)}/${Math.floor(column / TILE)}`);
	if (to - from === 1 && page.trail.row_is === "rank")
		return rows[from][0] < 0 ? null : rows[from][0];
	if (!tile || tile.column + tile.known <= column)
		return null;
	const at = row => row % TILE * TILE + column % TILE;
	let best = from;
	for (let row = from; row < to; row++)
		if (tile.planes[0][at(row)] > tile.planes[0][at(best)])
			best = row;
	const offset = tile.planes.length > 2 ? tile.planes[2][at(best)] : 0;
	return rows[best][0] < 0 ? null : rows[best][0] + (offset < 255 ? offset : 0);
}

function tellCell(cell) {
	const [from, to] = heat.lines[cell.line], { columns, rows } = page.trail, column = columns[cell.column];
	const most = plane => largest(plane, heat.level, ...levelRows(cell.line, cell.line + 1), cell.column, cell.column + 1, new Uint8Array(1))[0], one = most(0), other = most(1), rank = rankOfRows(from, to, cell.column);
	const host = rows[from][2] && rows[from][2] === rows[to - 1][2] && lineName(cell.line) !== rows[from][2] ? " on " + rows[from][2] : "";
	const name = lineName(cell.line) + host + (heat.nodes && rank !== null ? ` (worst: rank ${rank})` : "");
	const tile = page.trail.tiles.get(`${heat.level}/${Math.floor(from / foldOf(heat.level) / TILE)}/${Math.floor(cell.column / TILE)}`);
	const what = !tile || tile.column + tile.known <= cell.column ? "on its way" : one || other ? `late by itself ${time(MICROSECONDS[one] / 1000)}, waited or late for others ${time(MICROSECONDS[other] / 1000)}` : "not judged: not measurable here";
	byId("heat-told").textContent = `${name}, ${stepWords(column)} at ${clock(column[3])} UTC: ${what}.`;
}

/* The rank of a cell comes into focus, and its step. Which rank it is of several rows, the map's own tell: they are asked for. */
async function focusCell(cell) {
	const [from, to] = heat.lines[cell.line], column = page.trail.columns[cell.column];
	tellCell(cell);
	await Promise.all(tilesToLoad(0, from, to, cell.column, cell.column + 1).map(load => load().catch(() => {})));
	const rank = rankOfRows(from, to, cell.column);
	setView({ rank: rank === null ? view.rank : rank, step: nearestWalk(column[0]) });
}

/* Of several rows, these alone are shown then. */
function chooseCell(cell) {
	const [from, to] = heat.lines[cell.line];
	focusCell(cell);
	heat.cursor = to - from > 1 ? null : cell;
	if (to - from > 1)
		setView({ r0: from, r1: to });
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
		Enter: () => { focusCell(cell); zoomIn(cell); }, " ": () => chooseCell(cell), Escape: zoomOut };
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
