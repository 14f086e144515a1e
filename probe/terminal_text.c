/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/terminal_text.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { CHUNK_BYTES = 4096 };
enum { ESCAPE = 0x1b, DELETE = 0x7f, C1_LEAD = 0xc2, C1_FIRST = 0x80, C1_LAST = 0x9f };

static bool begins_sequence(unsigned char byte)
{
	return byte == ESCAPE || byte == C1_LEAD;
}

static bool is_control(unsigned char byte)
{
	return (byte < ' ' && byte != '\n' && byte != '\t') || byte == DELETE;
}

/* Whether what is held may go on with the byte; *whole: it ends with it. */
static bool continues(const struct terminal_text *state, unsigned char byte, bool *whole)
{
	if ((unsigned char)state->held[0] == C1_LEAD) {
		*whole = byte > C1_LAST && byte < 0xc0;
		return *whole;
	}
	*whole = state->held_length > 1 && byte == 'm'; /* a colour: ESC [ 1 ; 31 m */
	if (state->held_length == 1)
		return byte == '[';
	return *whole || byte == ';' || (byte >= '0' && byte <= '9');
}

size_t terminal_text_clean(struct terminal_text *state, const char *text, size_t length, char *out)
{
	size_t used = 0;

	for (size_t i = 0; i < length; i++) {
		unsigned char byte = (unsigned char)text[i];
		bool whole = false, was_c1;

		if (state->held_length && state->held_length < TERMINAL_TEXT_HELD_MAX &&
			continues(state, byte, &whole)) {
			state->held[state->held_length++] = text[i];
			if (!whole)
				continue;
			memcpy(out + used, state->held, state->held_length);
			used += state->held_length;
			state->held_length = 0;
			continue;
		}
		was_c1 = state->held_length == 1 && (unsigned char)state->held[0] == C1_LEAD;
		if (state->held_length) { /* without what began it, the rest is text */
			state->held[0] = '?';
			memcpy(out + used, state->held, state->held_length);
			used += state->held_length;
			state->held_length = 0;
		}
		if (was_c1 && byte <= C1_LAST && byte >= C1_FIRST)
			out[used++] = '?';
		else if (begins_sequence(byte))
			state->held[state->held_length++] = text[i];
		else
			out[used++] = is_control(byte) ? '?' : text[i];
	}
	return used;
}

struct guarded {
	int fd;
	struct terminal_text text;
};

static bool write_all(int fd, const char *bytes, size_t length)
{
	while (length > 0) {
		ssize_t written = write(fd, bytes, length);

		if (written < 0)
			return false;
		bytes += written;
		length -= (size_t)written;
	}
	return true;
}

/* As fopencookie(3) wants it: less than length is an error, errno says which. */
static ssize_t write_clean(void *cookie, const char *bytes, size_t length)
{
	char clean[CHUNK_BYTES + TERMINAL_TEXT_HELD_MAX];
	struct guarded *guarded = cookie;

	for (size_t done = 0, part; done < length; done += part) {
		part = length - done < CHUNK_BYTES ? length - done : CHUNK_BYTES;
		if (!write_all(guarded->fd, clean,
			    terminal_text_clean(&guarded->text, bytes + done, part, clean)))
			return (ssize_t)done;
	}
	return (ssize_t)length;
}

static void guard(FILE **stream, struct guarded *guarded, int buffering)
{
	FILE *clean = fopencookie(guarded, "w", (cookie_io_functions_t){.write = write_clean});

	if (!clean)
		return;
	setvbuf(clean, NULL, buffering, BUFSIZ);
	*stream = clean;
}

void terminal_text_guard(void)
{
	static struct guarded out = {.fd = STDOUT_FILENO}, messages = {.fd = STDERR_FILENO};

	guard(&stdout, &out, isatty(STDOUT_FILENO) ? _IOLBF : _IOFBF);
	guard(&stderr, &messages, _IONBF);
}
