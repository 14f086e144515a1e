/* SPDX-License-Identifier: Apache-2.0 */
/* The libraries of collectives on this host, and what a probe on their functions costs. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "probe/attach/collective_table.h"
#include "probe/attach/first_opcode.h"
#include "probe/attach/library.h"
#include "probe/attach/symbols.h"
#include "probe/doctor.h"

enum { LIBRARIES_MAX = 32, NAMES_LENGTH = 160 };

struct costs {
	size_t found, collectives, expensive;
	char expensive_names[NAMES_LENGTH]; /* the first few */
};

static void count_costs(const char *path, const struct symbol_offset *offsets, struct costs *costs)
{
	for (size_t row = 0; row < collective_row_count; row++) {
		uint64_t offset = offsets[row].file_offset;
		size_t used = strlen(costs->expensive_names);
		enum opcode_cost cost;

		if (!offsets[row].found)
			continue;
		costs->found++;
		if (collective_rows[row].kind != ROW_COLLECTIVE)
			continue;
		costs->collectives++;
		if (first_opcode_read(path, &offset, &cost) == 0 && cost == OPCODE_CHEAP)
			continue;
		if (costs->expensive++ < 4)
			snprintf(costs->expensive_names + used, NAMES_LENGTH - used, "%s%s",
				used ? ", " : "", collective_rows[row].symbol);
	}
}

/* What follows ".so." in the name of the real file: libmpi.so.40.30.4 has version 40.30.4. */
static const char *version_of(const char *real)
{
	const char *marker = strstr(real, ".so.");

	return marker ? marker + 4 : "unknown";
}

static void check_library(
	struct doctor *doctor, const struct library_file *library, struct symbol_offset *offsets)
{
	char real[PATH_MAX];
	struct costs costs = {0};
	struct doctor_line *line;
	const char *slash;

	if (!realpath(library->path, real))
		snprintf(real, sizeof(real), "%s", library->path);
	memset(offsets, 0, collective_row_count * sizeof(*offsets));
	if (symbols_find_rows(library->path, offsets) < 0) {
		doctor_add(
			doctor, DOCTOR_DEGRADED, "library", "%.200s cannot be read", library->name);
		return;
	}
	count_costs(library->path, offsets, &costs);
	slash = strrchr(real, '/');
	if (costs.found == 0)
		return; /* e.g. a libtorch_cuda with NCCL outside */
	if (costs.expensive == 0) {
		doctor_add(doctor, DOCTOR_FINE, "library",
			"%.150s (version %.40s): %zu functions, %zu collectives, all cheap to "
			"probe",
			library->name, version_of(slash ? slash : real), costs.found,
			costs.collectives);
		return;
	}
	line = doctor_add(doctor, DOCTOR_DEGRADED, "library",
		"%.110s (version %.30s): %zu of %zu collectives are expensive to probe and left "
		"out: %.100s%s",
		library->name, version_of(slash ? slash : real), costs.expensive, costs.collectives,
		costs.expensive_names, costs.expensive > 4 ? ", ..." : "");
	doctor_advise(line, "their first instruction would be single-stepped (about 10 us a call); "
			    "calls of them are not seen");
}

void doctor_check_libraries(struct doctor *doctor)
{
	/* No command yet: the loader's cache, and the packages of the usual interpreter. */
	static char interpreter[] = "python3";
	static char *const usual[] = {interpreter, NULL};
	struct library_file *files = calloc(LIBRARIES_MAX, sizeof(*files));
	struct symbol_offset *offsets = calloc(collective_row_count, sizeof(*offsets));
	size_t count = 0, before = doctor->line_count;
	char names[COLLECTIVE_NAMES_LENGTH];

	if (files && offsets &&
		library_find_for_command(usual, files, LIBRARIES_MAX, &count) == 0) {
		for (size_t i = 0; i < count; i++)
			check_library(doctor, &files[i], offsets);
	}
	if (doctor->line_count == before) {
		collective_library_names(names);
		doctor_advise(
			doctor_add(doctor, DOCTOR_MISSING, "library",
				"none of %s in the loader's cache, LD_LIBRARY_PATH or python3",
				names),
			"nothing to do when jobs bring their own (containers, Python packages): "
			"those are found when the job runs");
	}
	free(files);
	free(offsets);
}
