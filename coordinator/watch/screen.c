/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/watch/screen.h"

#include <inttypes.h>
#include <string.h>

#include "coordinator/report/flush.h"
#include "coordinator/report/line.h"
#include "coordinator/report/utf8.h"
#include "coordinator/watch/lines.h"

enum {
	INDENT = 4,	 /* of what belongs to an incident */
	NODES_SHARE = 3, /* a third of the room for ranks is for nodes, where both are shown */
	HOST_WIDTH_MAX = 24,
	ADVICE_FEW = 2, /* lines of an incident, where there are many: a sentence, what to do */
};

/* As the page's map has it: a fault of a few percent of the step can be seen, noise hardly. */
static const double least_share = 0.02;
static const double held_weight = 1.0 / 3;

/* Copies so many columns at most; text is printable already. Returns where it was cut, or its end. */
static const char *copy_columns(char *out, size_t columns, const char *text)
{
	const char *from = text;

	while (*text && columns) {
		utf8_next(&text);
		columns--;
	}
	memcpy(out, from, (size_t)(text - from));
	out[text - from] = '\0';
	return text;
}

static bool is_full(const struct screen *screen)
{
	return screen->line_count + 1 >= screen->rows; /* the last one is for keys */
}

static void add_line(struct screen *screen, enum screen_style style, const char *text)
{
	struct screen_line *line = &screen->lines[screen->line_count];

	if (screen->line_count == screen->rows)
		return;
	line->style = style;
	copy_columns(line->text, screen->columns, text);
	screen->line_count++;
}

/* Where a line of at most so many columns ends: between words, where there are any. */
static const char *line_end(const char *text, size_t columns)
{
	const char *end = text, *space = NULL;

	for (size_t i = 0; i < columns && *end; i++) {
		if (*end == ' ')
			space = end;
		utf8_next(&end);
	}
	return *end && *end != ' ' && space && space > text ? space : end;
}

static void add_wrapped(struct screen *screen, enum screen_style style, const char *begin,
	const char *text, size_t most)
{
	size_t columns = screen->columns > INDENT + 8 ? screen->columns - INDENT : 8;
	char line[SCREEN_LINE_LENGTH];

	for (size_t i = 0; i < most && *text && !is_full(screen); i++) {
		const char *end = line_end(text, columns);
		bool cut = i + 1 == most && *end;

		snprintf(line, sizeof(line), "%-*s%.*s%s", INDENT, i ? "" : begin,
			(int)(end - text), text, cut ? "…" : "");
		add_line(screen, style, line);
		text = end + (*end == ' ');
	}
}

static void draw_head(
	struct screen *screen, const struct watch_view *view, const struct screen_state *state)
{
	char text[SCREEN_LINE_LENGTH], words[512];
	struct line line;

	line_init(&line, text, sizeof(text));
	line_add(&line, "slowrank");
	if (*state->note) {
		line_add(&line, " [");
		line_add_outside(&line, state->note);
		line_add(&line, "]");
	}
	line_add(&line, " ");
	line_add_outside(
		&line, view ? watch_job_words(&view->job, words, sizeof(words)) : state->source);
	add_line(screen, SCREEN_BOLD, text);
}

static void draw_wish(struct screen *screen, const struct watch_wish *wish)
{
	char text[2 * WATCH_WORDS_LENGTH + 64];
	struct line line;

	if (!*wish->ranks_text && !*wish->host && !wish->named)
		return;
	line_init(&line, text, sizeof(text));
	line_add(&line, "only");
	if (wish->named)
		line_add(&line, " ranks that are named");
	if (*wish->ranks_text)
		line_add(&line, "%s ranks %s", wish->named ? " of" : "", wish->ranks_text);
	if (*wish->host) {
		line_add(&line, " on ");
		line_add_outside(&line, wish->host);
	}
	line_add(&line, " (key a: all)");
	add_line(screen, SCREEN_REVERSE, text);
}

/* Without more than a line for each thing that is said. */
static size_t least_lines(const struct watch_incident *incident)
{
	return incident->ended ? 1 : 2;
}

/* Each gets what it needs, as long as there is room for the least of those behind it. */
static void draw_incidents(struct screen *screen, const struct watch_view *view, size_t most)
{
	size_t until = screen->line_count + most, shown = 0, behind = 0;
	char text[128], number[16];

	for (size_t i = 0; i < view->incident_count; i++)
		behind += least_lines(&view->incidents[i]);
	for (; shown < view->incident_count; shown++) {
		const struct watch_incident *incident = &view->incidents[shown];
		size_t least = least_lines(incident), left = until - screen->line_count;

		if (left < least + 1)
			break;
		behind -= least;
		left = behind + least < left ? left - behind : least;
		snprintf(number, sizeof(number), "%" PRIu32, incident->id);
		add_wrapped(screen,
			incident->ended || incident->unmeasured ? SCREEN_DIM : SCREEN_BOLD_RED,
			number, incident->sentence, left - (least - 1));
		if (!incident->ended)
			add_wrapped(screen, SCREEN_PLAIN, "", incident->advice,
				until - screen->line_count > behind + 1
					? until - screen->line_count - behind
					: 1);
	}
	if (view->incident_total > shown) {
		snprintf(text, sizeof(text), "… %zu more incidents", view->incident_total - shown);
		add_line(screen, SCREEN_PLAIN, text);
	}
}

static void draw_no_incident(struct screen *screen, const struct watch_view *view)
{
	char text[128];

	if (!view->incident_total)
		add_line(screen, SCREEN_PLAIN,
			view->incidents_elsewhere ? "no incident of these ranks"
						  : "no incident so far");
	if (view->incidents_elsewhere) {
		snprintf(text, sizeof(text), "%zu incident%s of other ranks",
			view->incidents_elsewhere, view->incidents_elsewhere == 1 ? "" : "s");
		add_line(screen, SCREEN_DIM, text);
	}
}

/* Whether it is late by itself or waits; red and blue as on the page. */
static enum screen_style style_of(double own_ms, double held_ms, double step_ms)
{
	double least_ms = step_ms * least_share;

	if (own_ms >= least_ms && own_ms >= held_ms * held_weight && own_ms > 0)
		return SCREEN_RED;
	return held_ms >= least_ms && held_ms > 0 ? SCREEN_BLUE : SCREEN_PLAIN;
}

static void add_ms(struct line *line, double ms, int width)
{
	char text[64];
	struct line cell;

	line_init(&cell, text, sizeof(text));
	line_add_decimal(&cell, ms, 2);
	line_add(line, " %*s", width, text);
}

/* Padded to so many columns, not bytes. */
static void add_host(struct line *line, const char *host, size_t width)
{
	char text[4 * HOST_WIDTH_MAX + 1];
	size_t columns = 0;

	if (!*host)
		host = "?";
	copy_columns(text, width, host);
	for (const char *at = text; *at; columns++)
		utf8_next(&at);
	line_add(line, " %s%*s", text, (int)(width - columns), "");
}

static size_t columns_of(const char *text)
{
	size_t columns = 0;

	for (; *text; columns++)
		utf8_next(&text);
	return columns;
}

static size_t host_width(const struct watch_view *view)
{
	size_t width = 4;

	for (size_t i = 0; i < view->rank_count; i++) {
		size_t columns = columns_of(view->ranks[i].host);

		width = columns > width ? columns : width;
	}
	for (size_t i = 0; i < view->node_count; i++) {
		size_t columns = columns_of(view->nodes[i].host);

		width = columns > width ? columns : width;
	}
	return width < HOST_WIDTH_MAX ? width : (size_t)HOST_WIDTH_MAX;
}

static void draw_rank(
	struct screen *screen, const struct watch_row *row, size_t width, double step_ms)
{
	static const char *const words[] = {
		[SCREEN_PLAIN] = "", [SCREEN_RED] = "late", [SCREEN_BLUE] = "waits"};
	const struct watch_rank *rank = &row->rank;
	enum screen_style style =
		style_of((double)rank->own_ms, (double)watch_held_ms(rank), step_ms);
	const char *word = words[style];
	char text[SCREEN_LINE_LENGTH];
	struct line line;

	if (rank->part == WATCH_NAMED) {
		style = SCREEN_BOLD_RED;
		word = "named";
	} else if (rank->part == WATCH_VICTIM && style == SCREEN_PLAIN) {
		style = SCREEN_BLUE;
		word = "waits";
	}
	line_init(&line, text, sizeof(text));
	line_add(&line, "%c %6" PRIu32, rank->part == WATCH_NAMED ? '*' : ' ', rank->rank);
	add_host(&line, row->host, width);
	if (!rank->steps) {
		line_add(&line, " %-6s not measured: no step of it was seen lately",
			rank->part == WATCH_NAMED ? word : "");
		add_line(screen, rank->part == WATCH_NAMED ? style : SCREEN_DIM, text);
		return;
	}
	line_add(&line, " %-6s", word);
	add_ms(&line, (double)rank->own_ms, 8);
	add_ms(&line, (double)rank->inherited_ms, 9);
	for (int phase = 0; phase < PHASE_NR; phase++)
		add_ms(&line, (double)rank->phase_ms[phase], 8);
	add_line(screen, style, text);
}

static void draw_ranks(struct screen *screen, const struct watch_view *view, size_t most)
{
	size_t width = host_width(view), shown;
	char text[SCREEN_LINE_LENGTH];

	snprintf(text, sizeof(text), "  %6s %-*s %-6s %8s %9s %8s %8s %8s %8s %8s", "rank",
		(int)width, "host", "", "late", "inherited", "input", "compute", "host", "wait",
		"transfer");
	add_line(screen, SCREEN_BOLD, text);
	shown = view->rank_total < most ? view->rank_count : most > 1 ? most - 2 : 0;
	for (size_t i = 0; i < shown && i < view->rank_count; i++)
		draw_rank(screen, &view->ranks[i], width, view->job.step_ms);
	if (view->rank_total > shown && most > 1) {
		snprintf(text, sizeof(text), "  … %zu more%s", view->rank_total - shown,
			view->rank_count < view->rank_total ? ", not as late" : "");
		add_line(screen, SCREEN_DIM, text);
	}
}

static void draw_nodes(struct screen *screen, const struct watch_view *view, size_t most)
{
	size_t width = host_width(view), shown = view->node_total < most ? view->node_count
						 : most > 1		 ? most - 2
									 : 0;
	char text[SCREEN_LINE_LENGTH];
	struct line line;

	snprintf(text, sizeof(text), "  %-*s %7s %6s %8s %8s %8s", (int)width, "node", "ranks",
		"named", "late", "of rank", "held");
	add_line(screen, SCREEN_BOLD, text);
	for (size_t i = 0; i < shown && i < view->node_count; i++) {
		const struct watch_node *node = &view->nodes[i];

		line_init(&line, text, sizeof(text));
		line_add(&line, "%c", node->named ? '*' : ' ');
		add_host(&line, node->host, width);
		line_add(&line, " %7" PRIu32 " %6" PRIu32, node->rank_count, node->named);
		add_ms(&line, (double)node->own_ms, 8);
		line_add(&line, " %8" PRIu32, node->worst_rank);
		add_ms(&line, (double)node->held_ms, 8);
		add_line(screen,
			node->named ? SCREEN_BOLD_RED
				    : style_of((double)node->own_ms, (double)node->held_ms,
					      view->job.step_ms),
			text);
	}
	if (view->node_total > shown && most > 1) {
		snprintf(text, sizeof(text), "  … %zu more nodes", view->node_total - shown);
		add_line(screen, SCREEN_DIM, text);
	}
}

/* What numbers below are. */
static void draw_unit(struct screen *screen, const struct watch_job *job)
{
	char text[128];

	snprintf(text, sizeof(text), "ms a step, in %s%" PRIu64 " steps",
		job->lately_steps < job->steps ? "the last " : "all ", job->lately_steps);
	add_line(screen, SCREEN_DIM, job->steps ? text : "");
}

/* Ranks, and where these are not all of them, nodes. */
static void draw_tables(struct screen *screen, const struct watch_view *view, bool by_node)
{
	size_t room, nodes = 0;

	if (screen->line_count + 4 > screen->rows)
		return;
	draw_unit(screen, &view->job);
	room = screen->rows - 1 - screen->line_count;
	if (by_node)
		nodes = room;
	else if (view->rank_total + 1 > room && view->node_total > 1)
		nodes = room / NODES_SHARE;
	if (view->node_total + 1 < nodes)
		nodes = view->node_total + 1;
	if (nodes < 3 && !by_node)
		nodes = 0;
	if (!by_node)
		draw_ranks(screen, view, room - nodes);
	if (nodes)
		draw_nodes(screen, view, nodes);
}

/* So many lines are for incidents: all that ranks do not need, and half of the screen at least. */
static size_t incident_lines(const struct screen *screen, const struct watch_view *view)
{
	size_t room = screen->rows - screen->line_count - 2, ranks = view->rank_total + 1;

	return ranks < room / 2 ? room - ranks : room / 2;
}

void screen_draw(struct screen *screen, size_t rows, size_t columns, const struct watch_view *view,
	const struct watch_wish *wish, const struct screen_state *state)
{
	screen->rows = rows < SCREEN_ROWS_MAX ? rows : (size_t)SCREEN_ROWS_MAX;
	screen->columns = columns < SCREEN_COLUMNS_MAX ? columns : (size_t)SCREEN_COLUMNS_MAX;
	screen->line_count = 0;
	draw_head(screen, view, state);
	draw_wish(screen, wish);
	if (view && screen->line_count + 4 < screen->rows) {
		draw_no_incident(screen, view);
		draw_incidents(screen, view, incident_lines(screen, view));
		draw_tables(screen, view, state->by_node);
	}
	while (screen->line_count + 1 < screen->rows)
		add_line(screen, SCREEN_PLAIN, "");
	if (screen->line_count < screen->rows)
		add_line(screen, SCREEN_REVERSE,
			state->prompt
				? state->prompt
				: "q quit   r ranks   h host   o only named   a all   n nodes");
}

static void write_line(size_t row, const struct screen_line *line, bool colour, FILE *out)
{
	static const char *const starts[SCREEN_STYLE_NR] = {
		[SCREEN_PLAIN] = "",
		[SCREEN_BOLD] = "\033[1m",
		[SCREEN_DIM] = "\033[2m",
		[SCREEN_RED] = "\033[31m",
		[SCREEN_BOLD_RED] = "\033[1;31m",
		[SCREEN_BLUE] = "\033[34m",
		[SCREEN_REVERSE] = "\033[7m",
	};
	const char *start = colour ? starts[line->style] : "";

	fprintf(out, "\033[%zu;1H%s%s%s\033[K", row + 1, start, line->text,
		*start ? "\033[0m" : "");
}

int screen_update(const struct screen *before, const struct screen *now, bool colour, FILE *out)
{
	bool other = !before || before->rows != now->rows || before->columns != now->columns;

	if (other)
		fputs("\033[2J", out);
	for (size_t i = 0; i < now->line_count; i++) {
		const struct screen_line *line = &now->lines[i];

		if (other || i >= before->line_count || line->style != before->lines[i].style ||
			strcmp(line->text, before->lines[i].text) != 0)
			write_line(i, line, colour, out);
	}
	return report_flush(out);
}
