/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/stacks/unwind_table.h"

#include <errno.h>
#include <string.h>

enum {
	NUMBER_BYTES_MAX = 10,
	INSTRUCTIONS_MAX = 65536, /* bytes of one function's, longer than any seen */
	STATES_MAX = 8,		  /* that are remembered at once */
	AUGMENTATION_LENGTH = 8,
};

/* Encodings of pointers: the low half is the format, the high one what it counts from. */
enum {
	POINTER_ABSOLUTE = 0x00,
	POINTER_UNSIGNED = 0x01,
	POINTER_U2 = 0x02,
	POINTER_U4 = 0x03,
	POINTER_U8 = 0x04,
	POINTER_SIGNED = 0x09,
	POINTER_S2 = 0x0a,
	POINTER_S4 = 0x0b,
	POINTER_S8 = 0x0c,
	POINTER_FROM_HERE = 0x10,
	POINTER_FROM_HEADER = 0x30,
	POINTER_OMITTED = 0xff,
};

static bool read_bytes(struct memory_view *memory, uint64_t *at, void *bytes, size_t length)
{
	if (memory_view_read(memory, *at, bytes, length))
		return false;
	*at += length;
	return true;
}

bool unwind_read_unsigned(struct memory_view *memory, uint64_t *at, uint64_t *value)
{
	unsigned shift = 0;
	uint8_t byte;

	*value = 0;
	for (unsigned i = 0; i < NUMBER_BYTES_MAX && read_bytes(memory, at, &byte, 1); i++) {
		*value |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return true;
		shift += 7;
	}
	return false;
}

bool unwind_read_signed(struct memory_view *memory, uint64_t *at, int64_t *value)
{
	uint64_t bits = 0;
	unsigned shift = 0;
	uint8_t byte;

	for (unsigned i = 0; i < NUMBER_BYTES_MAX && read_bytes(memory, at, &byte, 1); i++) {
		bits |= (uint64_t)(byte & 0x7f) << shift;
		shift += 7;
		if (byte & 0x80)
			continue;
		if (byte & 0x40 && shift < 64)
			bits |= ~UINT64_C(0) << shift;
		*value = (int64_t)bits;
		return true;
	}
	return false;
}

static bool read_plain_pointer(
	struct memory_view *memory, uint64_t *at, uint8_t format, uint64_t *value)
{
	int64_t number;
	uint8_t bytes[8] = {0};
	uint16_t half;
	uint32_t word;

	switch (format) {
	case POINTER_UNSIGNED:
		return unwind_read_unsigned(memory, at, value);
	case POINTER_SIGNED:
		if (!unwind_read_signed(memory, at, &number))
			return false;
		*value = (uint64_t)number;
		return true;
	case POINTER_U2:
	case POINTER_S2:
		if (!read_bytes(memory, at, bytes, sizeof(half)))
			return false;
		memcpy(&half, bytes, sizeof(half));
		*value = format == POINTER_S2 ? (uint64_t)(int64_t)(int16_t)half : half;
		return true;
	case POINTER_U4:
	case POINTER_S4:
		if (!read_bytes(memory, at, bytes, sizeof(word)))
			return false;
		memcpy(&word, bytes, sizeof(word));
		*value = format == POINTER_S4 ? (uint64_t)(int64_t)(int32_t)word : word;
		return true;
	case POINTER_ABSOLUTE:
	case POINTER_U8:
	case POINTER_S8:
		return read_bytes(memory, at, value, sizeof(*value));
	default:
		return false;
	}
}

static bool read_pointer(struct memory_view *memory, uint64_t *at, uint8_t encoding,
	uint64_t header, uint64_t *value)
{
	uint64_t here = *at;

	if (encoding == POINTER_OMITTED || encoding & 0x80 ||
		!read_plain_pointer(memory, at, encoding & 0x0f, value))
		return false;
	switch (encoding & 0x70) {
	case POINTER_ABSOLUTE:
		return true;
	case POINTER_FROM_HERE:
		*value += here;
		return true;
	case POINTER_FROM_HEADER:
		*value += header;
		return true;
	default:
		return false;
	}
}

/* What the descriptions of many functions have in common (a CIE), and one function's (an FDE). */
struct description {
	uint64_t code_alignment;
	int64_t data_alignment;
	uint64_t return_register;
	uint8_t pointer_encoding;
	bool has_augmentation, is_signal_frame;
	uint64_t common_at, common_end; /* instructions */
	uint64_t start, range;		/* of the code */
	uint64_t at, end;
};

/* An entry's length and where it ends. False for the terminator, and for what is larger than any. */
static bool read_length(struct memory_view *memory, uint64_t *at, uint64_t *end)
{
	uint32_t length;

	if (!read_bytes(memory, at, &length, sizeof(length)) || length == 0 ||
		length > INSTRUCTIONS_MAX)
		return false;
	*end = *at + length;
	return true;
}

static bool read_augmentation(struct memory_view *memory, uint64_t *at, const char *letters,
	uint64_t header, struct description *out)
{
	uint64_t length, ignored, end;
	uint8_t encoding;

	if (letters[0] == '\0')
		return true;
	if (letters[0] != 'z' || !unwind_read_unsigned(memory, at, &length) ||
		length > INSTRUCTIONS_MAX)
		return false;
	out->has_augmentation = true;
	end = *at + length;
	for (letters++; *letters; letters++) {
		switch (*letters) {
		case 'R':
			if (!read_bytes(memory, at, &out->pointer_encoding, 1))
				return false;
			break;
		case 'L':
			if (!read_bytes(memory, at, &encoding, 1))
				return false;
			break;
		case 'P':
			/* Only skipped: it may be indirect. */
			if (!read_bytes(memory, at, &encoding, 1) ||
				!read_pointer(memory, at, encoding & 0x7f, header, &ignored))
				return false;
			break;
		case 'S':
			out->is_signal_frame = true;
			break;
		default:
			return false;
		}
	}
	*at = end;
	return true;
}

static bool read_common(
	struct memory_view *memory, uint64_t at, uint64_t header, struct description *out)
{
	char letters[AUGMENTATION_LENGTH] = {0};
	uint8_t version, register_number;
	uint32_t id;

	if (!read_length(memory, &at, &out->common_end) ||
		!read_bytes(memory, &at, &id, sizeof(id)) || id != 0 ||
		!read_bytes(memory, &at, &version, 1) || (version != 1 && version != 3))
		return false;
	for (size_t i = 0;; i++) {
		if (i == sizeof(letters) || !read_bytes(memory, &at, &letters[i], 1))
			return false;
		if (letters[i] == '\0')
			break;
	}
	if (!unwind_read_unsigned(memory, &at, &out->code_alignment) ||
		!unwind_read_signed(memory, &at, &out->data_alignment))
		return false;
	if (version == 1) {
		if (!read_bytes(memory, &at, &register_number, 1))
			return false;
		out->return_register = register_number;
	} else if (!unwind_read_unsigned(memory, &at, &out->return_register)) {
		return false;
	}
	if (!read_augmentation(memory, &at, letters, header, out))
		return false;
	out->common_at = at;
	return true;
}

static bool read_description(
	struct memory_view *memory, uint64_t at, uint64_t header, struct description *out)
{
	uint64_t common, length;
	uint32_t back;

	*out = (struct description){0};
	if (!read_length(memory, &at, &out->end))
		return false;
	common = at;
	if (!read_bytes(memory, &at, &back, sizeof(back)) || back == 0 || back > common ||
		!read_common(memory, common - back, header, out))
		return false;
	if (!read_pointer(memory, &at, out->pointer_encoding, header, &out->start) ||
		!read_plain_pointer(memory, &at, out->pointer_encoding & 0x0f, &out->range))
		return false;
	if (out->has_augmentation) {
		if (!unwind_read_unsigned(memory, &at, &length) || length > INSTRUCTIONS_MAX)
			return false;
		at += length;
	}
	out->at = at;
	return true;
}

/* The table of .eh_frame_hdr: pairs of a function's begin and its description, in order. */
static bool search_table(struct memory_view *memory, uint64_t header, uint64_t header_end,
	uint64_t address, uint64_t *description)
{
	struct {
		uint8_t version, frame_encoding, count_encoding, table_encoding;
	} head;
	int32_t pair[2];
	uint64_t at = header, frames, count, low = 0;

	if (!read_bytes(memory, &at, &head, sizeof(head)) || head.version != 1 ||
		head.table_encoding != (POINTER_FROM_HEADER | POINTER_S4) ||
		!read_pointer(memory, &at, head.frame_encoding, header, &frames) ||
		!read_pointer(memory, &at, head.count_encoding, header, &count) ||
		at > header_end || count == 0 || count > (header_end - at) / sizeof(pair))
		return false;
	for (uint64_t high = count; low < high;) {
		uint64_t middle = low + (high - low) / 2;

		if (memory_view_read(memory, at + middle * sizeof(pair), pair, sizeof(pair)))
			return false;
		if (header + (uint64_t)(int64_t)pair[0] <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == 0 || memory_view_read(memory, at + (low - 1) * sizeof(pair), pair, sizeof(pair)))
		return false;
	*description = header + (uint64_t)(int64_t)pair[1];
	return true;
}

struct program {
	struct memory_view *memory;
	const struct description *description;
	uint64_t at, end;
	uint64_t location, wanted;
	struct unwind_row *row;
	const struct unwind_row *initial; /* for what restores a rule; NULL in the common part */
	struct unwind_row states[STATES_MAX];
	size_t state_count;
};

enum {
	CFA_ADVANCE = 0x40, /* the two high bits; the low ones are the operand */
	CFA_OFFSET = 0x80,
	CFA_RESTORE = 0xc0,
	CFA_NOP = 0x00,
	CFA_SET_LOCATION = 0x01,
	CFA_ADVANCE_1 = 0x02,
	CFA_ADVANCE_2 = 0x03,
	CFA_ADVANCE_4 = 0x04,
	CFA_OFFSET_EXTENDED = 0x05,
	CFA_RESTORE_EXTENDED = 0x06,
	CFA_UNDEFINED = 0x07,
	CFA_SAME_VALUE = 0x08,
	CFA_REGISTER = 0x09,
	CFA_REMEMBER_STATE = 0x0a,
	CFA_RESTORE_STATE = 0x0b,
	CFA_DEFINE = 0x0c,
	CFA_DEFINE_REGISTER = 0x0d,
	CFA_DEFINE_OFFSET = 0x0e,
	CFA_DEFINE_EXPRESSION = 0x0f,
	CFA_EXPRESSION = 0x10,
	CFA_OFFSET_EXTENDED_SIGNED = 0x11,
	CFA_DEFINE_SIGNED = 0x12,
	CFA_DEFINE_OFFSET_SIGNED = 0x13,
	CFA_VALUE_OFFSET = 0x14,
	CFA_VALUE_OFFSET_SIGNED = 0x15,
	CFA_VALUE_EXPRESSION = 0x16,
	CFA_ARGUMENTS_SIZE = 0x2e,
};

/* Rules for registers that are not followed (vectors) are read and left out. */
static void set_rule(
	struct program *program, uint64_t number, enum unwind_rule_kind kind, int64_t value)
{
	if (number < UNWIND_REGISTERS)
		program->row->rules[number] = (struct unwind_rule){(uint8_t)kind, value};
}

static bool restore_rule(struct program *program, uint64_t number)
{
	if (!program->initial)
		return false;
	if (number < UNWIND_REGISTERS)
		program->row->rules[number] = program->initial->rules[number];
	return true;
}

static bool set_cfa(struct program *program, uint64_t number, int64_t offset)
{
	if (number >= UNWIND_REGISTERS)
		return false;
	program->row->cfa_register = (uint8_t)number;
	program->row->cfa_by_expression = false;
	program->row->cfa_offset = offset;
	return true;
}

static int64_t scaled(const struct program *program, int64_t value)
{
	return (int64_t)((uint64_t)value * (uint64_t)program->description->data_alignment);
}

static bool read_number(struct program *program, uint64_t *value)
{
	return unwind_read_unsigned(program->memory, &program->at, value);
}

/* An expression is read when it is needed: here it is skipped. */
static bool skip_block(struct program *program, uint64_t *begin)
{
	uint64_t length;

	*begin = program->at;
	if (!read_number(program, &length) || length > INSTRUCTIONS_MAX)
		return false;
	program->at += length;
	return true;
}

static bool advance(struct program *program, size_t bytes)
{
	uint32_t delta = 0; /* little-endian, as x86-64 is */

	if (!read_bytes(program->memory, &program->at, &delta, bytes))
		return false;
	program->location += delta * program->description->code_alignment;
	return true;
}

static bool run_rule(struct program *program, uint8_t code)
{
	uint64_t number, value;
	int64_t offset;

	if (!read_number(program, &number))
		return false;
	switch (code) {
	case CFA_OFFSET_EXTENDED:
	case CFA_VALUE_OFFSET:
		if (!read_number(program, &value))
			return false;
		set_rule(program, number,
			code == CFA_VALUE_OFFSET ? UNWIND_CFA_PLUS : UNWIND_AT_CFA,
			scaled(program, (int64_t)value));
		return true;
	case CFA_OFFSET_EXTENDED_SIGNED:
	case CFA_VALUE_OFFSET_SIGNED:
		if (!unwind_read_signed(program->memory, &program->at, &offset))
			return false;
		set_rule(program, number,
			code == CFA_VALUE_OFFSET_SIGNED ? UNWIND_CFA_PLUS : UNWIND_AT_CFA,
			scaled(program, offset));
		return true;
	case CFA_RESTORE_EXTENDED:
		return restore_rule(program, number);
	case CFA_UNDEFINED:
		set_rule(program, number, UNWIND_UNDEFINED, 0);
		return true;
	case CFA_SAME_VALUE:
		set_rule(program, number, UNWIND_SAME, 0);
		return true;
	case CFA_REGISTER:
		if (!read_number(program, &value))
			return false;
		set_rule(program, number, UNWIND_REGISTER, (int64_t)value);
		return true;
	default: /* CFA_EXPRESSION, CFA_VALUE_EXPRESSION */
		if (!skip_block(program, &value))
			return false;
		set_rule(program, number, code == CFA_EXPRESSION ? UNWIND_AT_RESULT : UNWIND_RESULT,
			(int64_t)value);
		return true;
	}
}

static bool run_cfa(struct program *program, uint8_t code)
{
	uint64_t number = program->row->cfa_register, value;
	int64_t offset = program->row->cfa_offset;

	switch (code) {
	case CFA_DEFINE:
		return read_number(program, &number) && read_number(program, &value) &&
		       set_cfa(program, number, (int64_t)value);
	case CFA_DEFINE_SIGNED:
		return read_number(program, &number) &&
		       unwind_read_signed(program->memory, &program->at, &offset) &&
		       set_cfa(program, number, scaled(program, offset));
	case CFA_DEFINE_REGISTER:
		return read_number(program, &number) && set_cfa(program, number, offset);
	case CFA_DEFINE_OFFSET:
		return read_number(program, &value) && set_cfa(program, number, (int64_t)value);
	case CFA_DEFINE_OFFSET_SIGNED:
		return unwind_read_signed(program->memory, &program->at, &offset) &&
		       set_cfa(program, number, scaled(program, offset));
	default: /* CFA_DEFINE_EXPRESSION */
		if (!skip_block(program, &value))
			return false;
		program->row->cfa_by_expression = true;
		program->row->cfa_offset = (int64_t)value;
		return true;
	}
}

static bool run_state(struct program *program, uint8_t code)
{
	if (code == CFA_REMEMBER_STATE) {
		if (program->state_count == STATES_MAX)
			return false;
		program->states[program->state_count++] = *program->row;
		return true;
	}
	if (program->state_count == 0)
		return false;
	*program->row = program->states[--program->state_count];
	return true;
}

static bool run_instruction(struct program *program, uint8_t code)
{
	uint64_t value, low = code & 0x3f;

	switch (code & 0xc0) {
	case CFA_ADVANCE:
		program->location += low * program->description->code_alignment;
		return true;
	case CFA_OFFSET:
		if (!read_number(program, &value))
			return false;
		set_rule(program, low, UNWIND_AT_CFA, scaled(program, (int64_t)value));
		return true;
	case CFA_RESTORE:
		return restore_rule(program, low);
	}
	if (code >= CFA_DEFINE && code <= CFA_DEFINE_EXPRESSION)
		return run_cfa(program, code);
	switch (code) {
	case CFA_NOP:
		return true;
	case CFA_SET_LOCATION:
		return read_pointer(program->memory, &program->at,
			program->description->pointer_encoding, 0, &program->location);
	case CFA_ADVANCE_1:
		return advance(program, 1);
	case CFA_ADVANCE_2:
		return advance(program, 2);
	case CFA_ADVANCE_4:
		return advance(program, 4);
	case CFA_REMEMBER_STATE:
	case CFA_RESTORE_STATE:
		return run_state(program, code);
	case CFA_DEFINE_SIGNED:
	case CFA_DEFINE_OFFSET_SIGNED:
		return run_cfa(program, code);
	case CFA_ARGUMENTS_SIZE:
		return read_number(program, &value);
	case CFA_OFFSET_EXTENDED:
	case CFA_RESTORE_EXTENDED:
	case CFA_UNDEFINED:
	case CFA_SAME_VALUE:
	case CFA_REGISTER:
	case CFA_EXPRESSION:
	case CFA_OFFSET_EXTENDED_SIGNED:
	case CFA_VALUE_OFFSET:
	case CFA_VALUE_OFFSET_SIGNED:
	case CFA_VALUE_EXPRESSION:
		return run_rule(program, code);
	default:
		return false;
	}
}

/* Up to the wanted address; each instruction takes a byte at least. */
static bool run(struct program *program)
{
	uint8_t code;

	while (program->at < program->end) {
		if (!read_bytes(program->memory, &program->at, &code, 1) ||
			!run_instruction(program, code))
			return false;
		if (program->location > program->wanted)
			break;
	}
	return true;
}

int unwind_table_find(struct memory_view *memory, uint64_t header, uint64_t header_end,
	uint64_t address, struct unwind_row *row)
{
	struct description description;
	struct unwind_row found = {0}, initial;
	struct program program = {
		.memory = memory, .description = &description, .wanted = address, .row = &found};
	uint64_t at;

	if (!search_table(memory, header, header_end, address, &at) ||
		!read_description(memory, at, header, &description) ||
		description.return_register != UNWIND_RIP || address < description.start ||
		address - description.start >= description.range)
		return -ENOENT;
	found.is_signal_frame = description.is_signal_frame;
	program.location = description.start;
	program.at = description.common_at;
	program.end = description.common_end;
	if (!run(&program))
		return -ENOENT;
	initial = found;
	program.initial = &initial;
	program.location = description.start;
	program.at = description.at;
	program.end = description.end;
	if (!run(&program))
		return -ENOENT;
	*row = found;
	return 0;
}
