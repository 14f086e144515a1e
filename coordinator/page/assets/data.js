/* The page's data, as slowrank wrote it: decoded, and small questions to it. docs/page.md has the format. */
const byId = id => document.getElementById(id);
/* Names are the job's choice: what steers or reorders text is none. */
const plainText = text => String(text).replace(/[\u0000-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g, "?");
const WHY_NONE = "Not measurable: no step was judged.";
let page = null;

/* By the key that the reader has, if any. */
const ask = (address, headers) => fetch(address, { headers: keyOfReader ? { Authorization: `Bearer ${keyOfReader}`, ...headers } : headers });

/* A number that is none (JSON has no such) is null, and then NaN: shown as "?". */
const parse = text => JSON.parse(text, (key, value) => value === null ? NaN : value);

function made(name, attributes, ...children) {
	const element = document.createElement(name);
	for (const key in attributes)
		element.setAttribute(key, attributes[key]);
	element.append(...children);
	return element;
}

async function inflate(packed) {
	const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
	return new Uint8Array(await new Response(stream).arrayBuffer());
}

/* A part of the job's course by its name: from the page itself, or from the coordinator. Throws where that has another layout by now. */
async function part(trail, name) {
	if (trail.parts)
		return inflate(Uint8Array.from(atob(trail.parts[name]), letter => letter.charCodeAt(0)));
	const answer = await ask(`page/${trail.layout}/${name}`, {});
	if (answer.status !== 200)
		throw Object.assign(new Error(name), { status: answer.status });
	return inflate(await answer.arrayBuffer());
}

const jsonPart = async (trail, name) => parse(new TextDecoder().decode(await part(trail, name)));

/* [ranks, host, first rank] of each row, where the host is not the row's before, and the rank does not follow it: as [first, last, host]. */
function decodeRows(packed) {
	let host = "", next = 0;
	return packed.map(([ranks, name, first]) => {
		host = name === undefined ? host : plainText(name);
		if (!ranks)
			return [-1, -1, host];
		const from = first === undefined ? next : first;
		next = from + ranks;
		return [from, next - 1, host];
	});
}

/* Columns that are new since some were known, of which the last one may have changed. */
async function addColumns(trail) {
	const known = Math.max(0, trail.columns.length - 1), last = trail.column_count - 1;
	trail.columns.splice(known, 1, ...await jsonPart(trail, `columns/${known}-${last}`));
}

/* What is known of the course goes on in the new data where the layout is the same; else it is asked for anew. */
async function decode(data, before) {
	const trail = data.trail, known = before && before.trail && trail && before.trail.layout === trail.layout ? before.trail : null;
	data.incidentOf = new Map(data.incidents.map(incident => [incident.id, incident]));
	data.rankOf = new Map(data.report.ranks.map(rank => [rank.rank, rank]));
	if (!trail || !trail.column_count)
		return Object.assign(data, { trail: null });
	trail.parts = data.parts;
	if (known) {
		forgetNewest(known.tiles, known.columns.length);
		for (const name of ["rows", "tiles", "trackOf", "walkOf"])
			trail[name] = known[name];
		trail.columns = [...known.columns];
	} else {
		Object.assign(trail, { columns: [], tiles: new Map(), trackOf: new Map(), walkOf: new Map(), rows: decodeRows(await jsonPart(trail, "rows")) });
	}
	await addColumns(trail);
	trail.tracked = new Set(trail.tracks);
	return data;
}

/* A rank's course; of one that is known, the columns that are new. */
async function loadTrack(trail, rank) {
	const have = trail.trackOf.get(rank), from = have ? Math.max(0, have.steps.length - 1) : 0, wide = trail.column_count - from;
	const bytes = await part(trail, `track/${rank}/${from}-${trail.column_count - 1}`), values = new Float32Array(bytes.buffer, 0, bytes.length >> 2);
	const lines = [...Array(values.length / wide).keys()].map(at => {
		const line = new Float32Array(trail.column_count);
		if (have)
			line.set((at ? have.series[at - 1] : have.steps).subarray(0, from));
		line.set(values.subarray(at * wide, (at + 1) * wide), from);
		return line;
	});
	trail.trackOf.set(rank, { steps: lines[0], series: lines.slice(1) });
}

/* The parts that the view shows and that are not here yet: what loads each. */
function missingParts() {
	const trail = page.trail, loads = missingTiles();
	if (view.rank !== null && trail.tracked.has(view.rank) && (trail.trackOf.get(view.rank) || { steps: [] }).steps.length < trail.column_count)
		loads.push(() => loadTrack(trail, view.rank));
	if (view.step !== null && !trail.walkOf.has(view.step)) {
		const step = view.step;
		loads.push(async () => trail.walkOf.set(step, await jsonPart(trail, `walk/${step}`)));
	}
	return loads;
}

/* Of a byte of the map: microseconds; see heat_value() in slowrank's sources. */
const MICROSECONDS = Array.from({ length: 256 }, (_, value) => value < 2 ? 0 : 2 ** ((value - 2) >> 3) * (1 + ((value - 2) & 7) / 8));

/* The column that a step is in. */
function columnOf(step) {
	const columns = page.trail.columns;
	let low = 0, high = columns.length - 1;
	while (low < high) {
		const middle = (low + high + 1) >> 1;
		if (columns[middle][0] <= step)
			low = middle;
		else
			high = middle - 1;
	}
	return low;
}

const hostOf = rank => {
	const known = page.rankOf.get(rank), row = page.trail ? rowOfRank(rank) : -1;
	return known && known.host ? plainText(known.host) : row >= 0 ? page.trail.rows[row][2] : "";
};

function time(ms) {
	if (!Number.isFinite(ms))
		return "?";
	if (ms >= 9950)
		return (ms / 1000).toFixed(1) + " s";
	return (ms >= 99.5 ? ms.toFixed(0) : ms >= 9.95 ? ms.toFixed(1) : ms >= 0.995 ? ms.toFixed(2) : ms > 0 ? ms.toFixed(3) : "0") + " ms";
}

const clock = ms => new Date(ms).toISOString().slice(11, 19);
const stepWords = column => column[1] > 1 ? `steps ${column[0]} to ${column[0] + column[1] - 1}` : `step ${column[0]}`;
const number = value => value.toLocaleString("en-US");
const count = (value, word) => `${number(value)} ${word}${value === 1 ? "" : "s"}`;

/* A colour of the style sheet, for canvases. */
const style = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
