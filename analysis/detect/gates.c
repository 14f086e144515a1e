/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/detect/gates.h"

#include <math.h>

const struct gate_rule *gate_rule(enum gate gate)
{
	static const struct gate_rule rules[GATE_NR] = {
#define GATE(id, text, of, holds) [GATE_##id] = {.name = (text), .unit = (of), .why = (holds)},
#include "analysis/detect/gates.def"
#undef GATE
	};

	return &rules[gate];
}

const char *gate_unit_name(enum gate_unit unit)
{
	static const char *const names[GATE_UNIT_NR] = {"is", "count", "number", "share", "ms"};

	return (size_t)unit < GATE_UNIT_NR ? names[unit] : "unknown";
}

/* How much of the limit is reached. */
static double nearness(double value, double limit)
{
	if (value >= limit)
		return 1;
	return limit > 0 && value > 0 ? value / limit : 0;
}

bool gate_passed_in(
	struct gate_sheet *sheet, enum gate gate, double value, double limit, double unit)
{
	bool passed = value >= limit;
	struct gate_reading *reading;

	if (!sheet)
		return passed;
	reading = &sheet->gates[gate];
	if (!reading->asked || (passed && !reading->passed) ||
		nearness(value, limit) > nearness(reading->value, reading->limit))
		*reading = (struct gate_reading){.asked = true,
			.passed = passed,
			.value = unit > 0 ? value / unit : 0,
			.limit = unit > 0 ? limit / unit : 0};
	return passed;
}

bool gate_passed(struct gate_sheet *sheet, enum gate gate, double value, double limit)
{
	return gate_passed_in(sheet, gate, value, limit, 1);
}

bool gate_is(struct gate_sheet *sheet, enum gate gate, bool passed)
{
	return gate_passed(sheet, gate, passed, 1);
}

enum gate gate_sheet_reach(const struct gate_sheet *sheet)
{
	enum gate gate = 0;

	while (gate < GATE_NR && (!sheet->gates[gate].asked || sheet->gates[gate].passed))
		gate++;
	return gate;
}

double gate_sheet_nearness(const struct gate_sheet *sheet)
{
	enum gate gate = gate_sheet_reach(sheet);

	return gate == GATE_NR ? 1 : nearness(sheet->gates[gate].value, sheet->gates[gate].limit);
}
