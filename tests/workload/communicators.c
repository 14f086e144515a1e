/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes communicators in all the ways that MPI has, and has all of them reduce in each step. The
 * reduction of the n-th has n elements, so that a record tells which is which; MEMBERS.RANK says who is
 * in it (launchers mix ranks' lines). usage: communicators MEMBERS STEPS STEP_MS
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/workload/work.h"

enum { MADE_MAX = 64, RANKS = 4 };

struct made {
	const char *way;
	MPI_Comm communicator;
};

struct program {
	int rank;
	struct made made[MADE_MAX];
	int count;
};

static void keep(struct program *program, const char *way, MPI_Comm communicator)
{
	if (program->count == MADE_MAX)
		MPI_Abort(MPI_COMM_WORLD, 5);
	program->made[program->count++] = (struct made){way, communicator};
}

static MPI_Comm create(MPI_Comm parent, MPI_Group group)
{
	MPI_Comm made = MPI_COMM_NULL;

	MPI_Comm_create(parent, group, &made);
	return made;
}

static MPI_Comm create_group(MPI_Group group, int tag)
{
	MPI_Comm made = MPI_COMM_NULL;
	int own;

	MPI_Group_rank(group, &own);
	if (own != MPI_UNDEFINED)
		MPI_Comm_create_group(MPI_COMM_WORLD, group, tag, &made);
	return made;
}

static void split_and_duplicate(struct program *program)
{
	MPI_Comm made, of_made;

	MPI_Comm_dup(MPI_COMM_WORLD, &made);
	keep(program, "dup", made);
	MPI_Comm_dup_with_info(MPI_COMM_WORLD, MPI_INFO_NULL, &made);
	keep(program, "dup_with_info", made);
	MPI_Comm_split(MPI_COMM_WORLD, program->rank % 2, 0, &made);
	keep(program, "split", made);
	MPI_Comm_dup(made, &of_made);
	keep(program, "dup of split", of_made);
	MPI_Comm_split(
		MPI_COMM_WORLD, program->rank == 1 ? MPI_UNDEFINED : 5, -program->rank, &made);
	keep(program, "split without one", made);
	MPI_Comm_split_type(
		MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, program->rank, MPI_INFO_NULL, &made);
	keep(program, "split_type", made);
}

/* Each rank's group in one call; groups that are made in several ways. */
static void from_groups(struct program *program, MPI_Group world)
{
	int halves[2][2] = {{0, 1}, {3, 2}}, ends[] = {0, 3}, one[] = {1};
	int ranges[][3] = {{0, 2, 2}, {3, 3, 1}};
	MPI_Group half, outer, inner, some, all, both, others;
	MPI_Comm made;

	MPI_Group_incl(world, 2, halves[program->rank / 2], &half);
	made = create(MPI_COMM_WORLD, half);
	keep(program, "create", made);
	MPI_Comm_free(&program->made[program->count - 1].communicator);
	program->made[program->count - 1].way = "freed";
	keep(program, "create again", create(MPI_COMM_WORLD, half));
	MPI_Group_incl(world, 2, ends, &outer);
	MPI_Group_excl(world, 2, ends, &inner);
	keep(program, "create of incl or excl",
		create(MPI_COMM_WORLD, program->rank % 3 == 0 ? outer : inner));
	MPI_Group_range_incl(world, 2, ranges, &some);
	keep(program, "create of range_incl", create(MPI_COMM_WORLD, some));
	MPI_Group_free(&some);
	MPI_Group_range_excl(world, 1, ranges, &some);
	keep(program, "create of range_excl", create(MPI_COMM_WORLD, some));
	MPI_Group_incl(world, 1, one, &all);
	MPI_Group_union(outer, all, &both);
	keep(program, "create of union", create(MPI_COMM_WORLD, both));
	MPI_Group_difference(world, all, &others);
	keep(program, "create of difference", create(MPI_COMM_WORLD, others));
	MPI_Group_free(&others);
	MPI_Group_intersection(world, both, &others);
	keep(program, "create of intersection", create(MPI_COMM_WORLD, others));
	MPI_Group_free(&half);
	MPI_Group_free(&outer);
	MPI_Group_free(&inner);
	MPI_Group_free(&some);
	MPI_Group_free(&all);
	MPI_Group_free(&both);
	MPI_Group_free(&others);
}

/* Calls of the members alone: what others count must not suffer. */
static void in_groups(struct program *program, MPI_Group world)
{
	int first[] = {0, 1, 2}, second[] = {3, 2, 1};
	MPI_Group a, b, again;
	MPI_Comm made;

	MPI_Group_incl(world, 3, first, &a);
	MPI_Group_incl(world, 3, second, &b);
	keep(program, "create_group", create_group(a, 1));
	keep(program, "create_group, overlapping", create_group(b, 1));
	keep(program, "create_group, again", create_group(a, 1));
	keep(program, "create_group, other tag", create_group(a, 2));
	MPI_Group_free(&a); /* what comes next may get its address */
	MPI_Group_incl(world, 3, program->rank == 3 ? second : first, &again);
	keep(program, "create_group, new group",
		program->rank == 3 ? MPI_COMM_NULL : create_group(again, 1));
	MPI_Comm_split(MPI_COMM_WORLD, program->rank / 2, 0, &made);
	keep(program, "split after create_group", made);
	MPI_Group_free(&b);
	MPI_Group_free(&again);
}

static void topologies(struct program *program)
{
	int lengths[] = {2, 2}, three[] = {3}, periods[] = {0, 0}, rows[] = {0, 1},
	    columns[] = {1, 0};
	int index[] = {1, 2, 3, 4}, edges[] = {1, 0, 3, 2};
	int neighbour = program->rank ^ 1, weight = 1;
	MPI_Comm grid, made;

	MPI_Cart_create(MPI_COMM_WORLD, 2, lengths, periods, 0, &grid);
	keep(program, "cart_create", grid);
	MPI_Cart_sub(grid, rows, &made);
	keep(program, "cart_sub, rows", made);
	MPI_Cart_sub(grid, columns, &made);
	keep(program, "cart_sub, columns", made);
	MPI_Comm_dup(grid, &made);
	keep(program, "dup of cart", made);
	MPI_Cart_sub(made, rows, &made);
	keep(program, "cart_sub of dup", made);
	MPI_Cart_create(MPI_COMM_WORLD, 1, three, periods, 1, &made);
	keep(program, "cart_create without one", made);
	MPI_Cart_create(MPI_COMM_WORLD, 2, lengths, periods, 1, &grid);
#ifndef OPEN_MPI
	int rank;

	MPI_Comm_rank(grid, &rank); /* else nothing tells, since its order may be another */
#endif
	keep(program, "cart_create, any order", grid);
	MPI_Cart_sub(grid, rows, &made);
	keep(program, "cart_sub, any order", made);
	MPI_Cart_sub(grid, columns, &made);
	keep(program, "cart_sub, any order, columns", made);
	MPI_Cart_create(MPI_COMM_WORLD, 2, lengths, periods, 1, &grid);
#ifndef OPEN_MPI
	MPI_Comm_rank(grid, &rank);
#endif
	MPI_Cart_sub(grid, rows, &made);
	MPI_Comm_free(&grid);
	keep(program, "cart_sub of what is freed", made);
	MPI_Graph_create(MPI_COMM_WORLD, RANKS, index, edges, 1, &made);
	keep(program, "graph_create", made);
	MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &neighbour, &weight, 1, &neighbour,
		&weight, MPI_INFO_NULL, 0, &made);
	keep(program, "dist_graph_create_adjacent", made);
}

/* Who is in it is told nowhere that can be seen from outside. */
static void not_joined(struct program *program, MPI_Comm half)
{
	MPI_Comm between, made;

	MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, program->rank / 2 ? 0 : 2, 7, &between);
	MPI_Intercomm_merge(between, program->rank / 2, &made);
	keep(program, "not joined", made);
	MPI_Comm_dup(made, &made);
	keep(program, "not joined", made);
}

static void say_members(const struct program *program, const char *path)
{
	char name[4096];
	FILE *file;

	snprintf(name, sizeof(name), "%s.%d", path, program->rank);
	file = fopen(name, "w");
	if (!file)
		MPI_Abort(MPI_COMM_WORLD, 6);
	for (int i = 0; i < program->count; i++) {
		MPI_Group world, group;
		int own[RANKS] = {0, 1, 2, 3}, ranks[RANKS], size;

		if (program->made[i].communicator == MPI_COMM_NULL)
			continue;
		MPI_Comm_group(MPI_COMM_WORLD, &world);
		MPI_Comm_group(program->made[i].communicator, &group);
		MPI_Group_size(group, &size);
		MPI_Group_translate_ranks(group, size, own, world, ranks);
		fprintf(file, "{\"rank\": %d, \"elements\": %d, \"way\": \"%s\", \"members\": [",
			program->rank, i + 1, program->made[i].way);
		for (int j = 0; j < size; j++)
			fprintf(file, "%s%d", j ? ", " : "", ranks[j]);
		fprintf(file, "]}\n");
		MPI_Group_free(&world);
		MPI_Group_free(&group);
	}
	if (fclose(file))
		MPI_Abort(MPI_COMM_WORLD, 6);
}

static void step(const struct program *program, double ms)
{
	int input[MADE_MAX] = {0}, output[MADE_MAX];

	work_sleep((int64_t)(ms * 1e6));
	for (int i = 0; i < program->count; i++) {
		if (program->made[i].communicator != MPI_COMM_NULL)
			MPI_Allreduce(input, output, i + 1, MPI_INT, MPI_SUM,
				program->made[i].communicator);
	}
}

int main(int argc, char **argv)
{
	struct program program = {0};
	MPI_Group world;
	int size;

	if (argc != 4)
		return 2;
	int steps = atoi(argv[2]);
	double step_ms = atof(argv[3]);

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &program.rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	if (size != RANKS)
		MPI_Abort(MPI_COMM_WORLD, 4);
	MPI_Comm_group(MPI_COMM_WORLD, &world);
	split_and_duplicate(&program);
	from_groups(&program, world);
	in_groups(&program, world);
	MPI_Comm half = program.made[program.count - 1].communicator;
	topologies(&program);
	not_joined(&program, half);
	MPI_Group_free(&world);
	say_members(&program, argv[1]);
	for (int i = 0; i < steps; i++)
		step(&program, step_ms);
	MPI_Finalize();
	return 0;
}
