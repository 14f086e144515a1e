/* The page's data, as slowrank wrote it: decoded, and small questions to it. docs/page.md has the format. */
const byId = id => document.getElementById(id);
/* Names are the job's choice: what steers or reorders text is none. */
const plainText = text => String(text).replace(/[\u0000-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g, "?");
const WHY_NONE = "Not measurable: no step was judged.";
let page = null;

/* A number that is none (JSON has no such) is null, and then NaN: shown as "?". */
const parse = text => JSON.parse(text, (key, value) => value === null ? NaN : value);

function made(name, attributes, ...children) {
	const element = document.createElement(name);
	for (const key in attributes)
		element.setAttribute(key, attributes[key]);
	element.append(...children);
	return element;
}

async function unpack(text) {
	const packed = Uint8Array.from(atob(text), letter => letter.charCodeAt(0));
	const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
	return new Uint8Array(await new Response(stream).arrayBuffer());
}

/* Rows for a map of many: 8 become one, and 8 of these, as often as it takes; each value the largest. */
function pyramid(bytes, rows, columns) {
	const levels = [{ bytes, rows, fold: 1 }];
	for (let last = levels[0]; last.rows > 256; last = levels[levels.length - 1]) {
		const count = Math.ceil(last.rows / 8), into = new Uint8Array(count * columns);
		for (let row = 0; row < last.rows; row++) {
			const from = row * columns, to = (row >> 3) * columns;
			for (let column = 0; column < columns; column++)
				if (last.bytes[from + column] > into[to + column])
					into[to + column] = last.bytes[from + column];
		}
		levels.push({ bytes: into, rows: count, fold: last.fold * 8 });
	}
	return levels;
}

async function decode(data) {
	const trail = data.trail;
	data.incidentOf = new Map(data.incidents.map(incident => [incident.id, incident]));
	data.rankOf = new Map(data.report.ranks.map(rank => [rank.rank, rank]));
	if (!trail || !trail.columns.length)
		return Object.assign(data, { trail: null });
	Object.assign(trail, { rows: data.rows, row_is: data.row_is });
	const size = trail.columns.length, wanted = [trail.own, trail.held, trail.who || ""].map(text => text ? unpack(text) : null);
	const [own, held, who] = await Promise.all(wanted);
	let host = "";
	trail.rows.forEach(row => { host = row.length > 2 ? plainText(row[2]) : host; row[2] = host; });
	trail.own = pyramid(own, trail.rows.length, size);
	trail.held = pyramid(held, trail.rows.length, size);
	trail.who = who;
	trail.trackOf = new Map();
	for (const track of trail.tracks) {
		const bytes = await unpack(track.values), values = new Float32Array(bytes.buffer, 0, bytes.length >> 2);
		trail.trackOf.set(track.rank, { steps: values.subarray(0, size), series: trail.series.map((name, at) => values.subarray((at + 1) * size, (at + 2) * size)) });
	}
	const steps = trail.columns.reduce((sum, column) => sum + column[1], 0);
	trail.meanMs = trail.columns.reduce((sum, column) => sum + column[1] * column[4], 0) / Math.max(1, steps);
	return data;
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
	const known = page.rankOf.get(rank);
	return known && known.host ? plainText(known.host) : "";
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
