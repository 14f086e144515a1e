/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/wire/message.h"

const char *source_state_name(enum source_state state)
{
	switch (state) {
	case SOURCE_OFF:
		return "off";
	case SOURCE_ON:
		return "on";
	case SOURCE_DEGRADED:
		return "degraded";
	case SOURCE_MISSING:
		return "not measurable";
	}
	return "unknown";
}
