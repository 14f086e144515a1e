/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/stacks/unwind.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "probe/stacks/unwind_table.h"

enum {
	ROWS_KEPT = 4096, /* a power of two; 1.3 MiB */
	EXPRESSION_STEPS = 128,
	EXPRESSION_DEPTH = 16,
	CALLEE_SAVED = 1 << UNWIND_RBX | 1 << UNWIND_RBP | 0xf << UNWIND_R12,
};

struct kept_row {
	uint64_t address; /* 0 = free */
	bool exists;	  /* a table has a rule for it */
	struct unwind_row row;
};

struct unwinder {
	const struct modules *modules;
	struct memory_view *tables, *stack;
	struct kept_row rows[ROWS_KEPT]; /* one place for each address; the last one stays */
};

int unwinder_create(const struct modules *modules, struct memory_view *tables,
	struct memory_view *stack, struct unwinder **result)
{
	struct unwinder *unwinder = calloc(1, sizeof(*unwinder));

	if (!unwinder)
		return -ENOMEM;
	unwinder->modules = modules;
	unwinder->tables = tables;
	unwinder->stack = stack;
	*result = unwinder;
	return 0;
}

void unwinder_destroy(struct unwinder *unwinder)
{
	free(unwinder);
}

void unwinder_forget(struct unwinder *unwinder)
{
	for (size_t i = 0; i < ROWS_KEPT; i++)
		unwinder->rows[i].address = 0;
}

static const struct unwind_row *find_row(
	struct unwinder *unwinder, const struct code_range *range, uint64_t address)
{
	struct kept_row *kept =
		&unwinder->rows[(address * UINT64_C(0x9e3779b97f4a7c15)) >> 52 & (ROWS_KEPT - 1)];

	if (kept->address != address) {
		const struct module *module = range->module == MODULE_NONE
						      ? NULL
						      : &unwinder->modules->modules[range->module];

		kept->address = address;
		kept->exists = module && module->unwind_table &&
			       unwind_table_find(unwinder->tables, module->unwind_table,
				       module->unwind_end, address, &kept->row) == 0;
	}
	return kept->exists ? &kept->row : NULL;
}

static bool is_known(const struct unwind_registers *registers, uint64_t number)
{
	return number < UNWIND_REGISTERS && registers->known & UINT32_C(1) << number;
}

static bool read_word(struct unwinder *unwinder, uint64_t address, uint64_t *word)
{
	return memory_view_read(unwinder->stack, address, word, sizeof(*word)) == 0;
}

/* An expression at work: a stack of words. */
struct expression {
	struct unwinder *unwinder;
	const struct unwind_registers *registers;
	uint64_t at;
	uint64_t words[EXPRESSION_DEPTH];
	size_t depth;
};

enum {
	OP_DEREFERENCE = 0x06,
	OP_CONSTANT_U1 = 0x08,
	OP_CONSTANT_S1 = 0x09,
	OP_CONSTANT_U2 = 0x0a,
	OP_CONSTANT_S2 = 0x0b,
	OP_CONSTANT_U4 = 0x0c,
	OP_CONSTANT_S4 = 0x0d,
	OP_CONSTANT_U8 = 0x0e,
	OP_CONSTANT_S8 = 0x0f,
	OP_CONSTANT_U = 0x10,
	OP_CONSTANT_S = 0x11,
	OP_DUPLICATE = 0x12,
	OP_DROP = 0x13,
	OP_AND = 0x1a,
	OP_MINUS = 0x1c,
	OP_OR = 0x21,
	OP_PLUS = 0x22,
	OP_PLUS_CONSTANT = 0x23,
	OP_SHIFT_LEFT = 0x24,
	OP_SHIFT_RIGHT = 0x25,
	OP_EQUAL = 0x29,
	OP_GREATER_EQUAL = 0x2a,
	OP_GREATER = 0x2b,
	OP_LESS_EQUAL = 0x2c,
	OP_LESS = 0x2d,
	OP_NOT_EQUAL = 0x2e,
	OP_LITERAL = 0x30,
	OP_BASE = 0x70, /* a register and an offset */
	OP_BASE_LAST = 0x8f,
};

static bool push(struct expression *expression, uint64_t word)
{
	if (expression->depth == EXPRESSION_DEPTH)
		return false;
	expression->words[expression->depth++] = word;
	return true;
}

static bool push_constant(struct expression *expression, uint8_t code)
{
	size_t bytes = (size_t)1 << (code - OP_CONSTANT_U1) / 2;
	bool is_signed = (code - OP_CONSTANT_U1) % 2;
	uint64_t word = 0, sign = UINT64_C(1) << (bytes * 8 - 1);

	if (memory_view_read(expression->unwinder->tables, expression->at, &word, bytes))
		return false;
	expression->at += bytes;
	if (is_signed && word & sign)
		word |= ~(sign - 1);
	return push(expression, word);
}

static bool combine(struct expression *expression, uint8_t code)
{
	uint64_t left, right;

	if (expression->depth < 2)
		return false;
	right = expression->words[--expression->depth];
	left = expression->words[--expression->depth];
	switch (code) {
	case OP_AND:
		return push(expression, left & right);
	case OP_MINUS:
		return push(expression, left - right);
	case OP_OR:
		return push(expression, left | right);
	case OP_PLUS:
		return push(expression, left + right);
	case OP_SHIFT_LEFT:
		return push(expression, right < 64 ? left << right : 0);
	case OP_SHIFT_RIGHT:
		return push(expression, right < 64 ? left >> right : 0);
	case OP_EQUAL:
		return push(expression, left == right);
	case OP_GREATER_EQUAL:
		return push(expression, (int64_t)left >= (int64_t)right);
	case OP_GREATER:
		return push(expression, (int64_t)left > (int64_t)right);
	case OP_LESS_EQUAL:
		return push(expression, (int64_t)left <= (int64_t)right);
	case OP_LESS:
		return push(expression, (int64_t)left < (int64_t)right);
	case OP_NOT_EQUAL:
		return push(expression, left != right);
	default:
		return false;
	}
}

static bool evaluate_one(struct expression *expression, uint8_t code)
{
	struct memory_view *tables = expression->unwinder->tables;
	uint64_t word, *top;
	int64_t offset;

	if (code >= OP_LITERAL && code < OP_LITERAL + 32)
		return push(expression, code - OP_LITERAL);
	if (code >= OP_BASE && code <= OP_BASE_LAST)
		return is_known(expression->registers, (uint64_t)(code - OP_BASE)) &&
		       unwind_read_signed(tables, &expression->at, &offset) &&
		       push(expression,
			       expression->registers->values[code - OP_BASE] + (uint64_t)offset);
	if (code >= OP_CONSTANT_U1 && code <= OP_CONSTANT_S8)
		return push_constant(expression, code);
	if (code == OP_CONSTANT_U)
		return unwind_read_unsigned(tables, &expression->at, &word) &&
		       push(expression, word);
	if (code == OP_CONSTANT_S)
		return unwind_read_signed(tables, &expression->at, &offset) &&
		       push(expression, (uint64_t)offset);
	if (expression->depth == 0)
		return false;
	top = &expression->words[expression->depth - 1];
	switch (code) {
	case OP_DEREFERENCE:
		return read_word(expression->unwinder, *top, top);
	case OP_DUPLICATE:
		return push(expression, *top);
	case OP_DROP:
		expression->depth--;
		return true;
	case OP_PLUS_CONSTANT:
		if (!unwind_read_unsigned(tables, &expression->at, &word))
			return false;
		*top += word;
		return true;
	default:
		return combine(expression, code);
	}
}

/* at: where the expression's length lies. first: what is on the stack before it begins, or NULL. */
static bool evaluate(struct unwinder *unwinder, const struct unwind_registers *registers,
	uint64_t at, const uint64_t *first, uint64_t *result)
{
	struct expression expression = {.unwinder = unwinder, .registers = registers, .at = at};
	uint64_t length, end;
	uint8_t code;

	if (!unwind_read_unsigned(unwinder->tables, &expression.at, &length))
		return false;
	end = expression.at + length;
	if (first && !push(&expression, *first))
		return false;
	for (unsigned i = 0; i < EXPRESSION_STEPS && expression.at < end; i++) {
		if (memory_view_read(unwinder->tables, expression.at++, &code, 1) ||
			!evaluate_one(&expression, code))
			return false;
	}
	if (expression.at != end || expression.depth == 0)
		return false;
	*result = expression.words[expression.depth - 1];
	return true;
}

/* What a register was in the caller; false when that cannot be known. */
static bool apply_rule(struct unwinder *unwinder, const struct unwind_registers *registers,
	const struct unwind_rule *rule, unsigned number, uint64_t cfa, uint64_t *value)
{
	uint64_t address;

	switch (rule->kind) {
	case UNWIND_SAME:
		*value = registers->values[number];
		return is_known(registers, number);
	case UNWIND_AT_CFA:
		return read_word(unwinder, cfa + (uint64_t)rule->value, value);
	case UNWIND_CFA_PLUS:
		*value = cfa + (uint64_t)rule->value;
		return true;
	case UNWIND_REGISTER:
		if (!is_known(registers, (uint64_t)rule->value))
			return false;
		*value = registers->values[rule->value];
		return true;
	case UNWIND_AT_RESULT:
		return evaluate(unwinder, registers, (uint64_t)rule->value, &cfa, &address) &&
		       read_word(unwinder, address, value);
	case UNWIND_RESULT:
		return evaluate(unwinder, registers, (uint64_t)rule->value, &cfa, value);
	default:
		return false;
	}
}

enum { STEPPED = -1 };

/* Returns STEPPED, or an enum unwind_end. */
static int step_by_table(
	struct unwinder *unwinder, const struct unwind_row *row, struct unwind_registers *registers)
{
	struct unwind_registers caller = {0};
	uint64_t cfa;

	if (row->rules[UNWIND_RIP].kind == UNWIND_UNDEFINED)
		return UNWIND_COMPLETE;
	if (row->cfa_by_expression) {
		if (!evaluate(unwinder, registers, (uint64_t)row->cfa_offset, NULL, &cfa))
			return UNWIND_NO_RULE;
	} else if (is_known(registers, row->cfa_register)) {
		cfa = registers->values[row->cfa_register] + (uint64_t)row->cfa_offset;
	} else {
		return UNWIND_NO_RULE;
	}
	for (unsigned i = 0; i < UNWIND_REGISTERS; i++) {
		/* What a call may change is known only where a signal interrupted. */
		if (row->rules[i].kind == UNWIND_SAME && !(CALLEE_SAVED & 1 << i) &&
			!row->is_signal_frame)
			continue;
		if (apply_rule(unwinder, registers, &row->rules[i], i, cfa, &caller.values[i]))
			caller.known |= UINT32_C(1) << i;
	}
	if (row->rules[UNWIND_RSP].kind == UNWIND_SAME) {
		caller.values[UNWIND_RSP] = cfa;
		caller.known |= UINT32_C(1) << UNWIND_RSP;
	}
	if (!is_known(&caller, UNWIND_RIP) || !is_known(&caller, UNWIND_RSP))
		return UNWIND_NO_MEMORY;
	/* Stacks grow down: but a signal may have a stack of its own. */
	if (!row->is_signal_frame && caller.values[UNWIND_RSP] <= registers->values[UNWIND_RSP])
		return UNWIND_NO_RULE;
	*registers = caller;
	return STEPPED;
}

/* Code without a table, such as what is made at run time: it may keep frame pointers. Or not: an address of 0 is then no outermost frame's. */
static int step_by_frame_pointer(struct unwinder *unwinder, struct unwind_registers *registers)
{
	uint64_t frame = registers->values[UNWIND_RBP],
		 words[2]; /* the caller's, and the address */

	if (!is_known(registers, UNWIND_RBP) || frame < registers->values[UNWIND_RSP])
		return UNWIND_NO_RULE;
	if (memory_view_read(unwinder->stack, frame, words, sizeof(words)) || words[1] == 0)
		return UNWIND_NO_RULE;
	*registers = (struct unwind_registers){
		.known = 1 << UNWIND_RBP | 1 << UNWIND_RSP | 1 << UNWIND_RIP};
	registers->values[UNWIND_RBP] = words[0];
	registers->values[UNWIND_RSP] = frame + sizeof(words);
	registers->values[UNWIND_RIP] = words[1];
	return STEPPED;
}

enum unwind_end unwind(struct unwinder *unwinder, const struct unwind_registers *registers,
	struct unwind_frame *frames, size_t capacity, size_t *count)
{
	struct unwind_registers now = *registers;
	bool behind_call = false;
	int end;

	*count = 0;
	if (!is_known(&now, UNWIND_RIP) || !is_known(&now, UNWIND_RSP))
		return UNWIND_NOT_STARTED;
	for (;;) {
		uint64_t address = now.values[UNWIND_RIP] - behind_call;
		const struct code_range *range = modules_find(unwinder->modules, address);
		const struct unwind_row *row;

		if (now.values[UNWIND_RIP] == 0)
			return UNWIND_COMPLETE; /* where the last frame has no caller */
		if (!range)
			return UNWIND_NO_CODE;
		if (*count == capacity)
			return UNWIND_TOO_DEEP;
		frames[*count] = (struct unwind_frame){address, UINT64_MAX};
		row = find_row(unwinder, range, address);
		end = row ? step_by_table(unwinder, row, &now)
			  : step_by_frame_pointer(unwinder, &now);
		(*count)++;
		if (end != STEPPED)
			return (enum unwind_end)end;
		frames[*count - 1].stack_end = now.values[UNWIND_RSP];
		behind_call = !(row && row->is_signal_frame);
	}
}
