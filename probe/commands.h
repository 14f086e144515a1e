/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points of the probe's subcommands. argv[0] is the subcommand's name. Return: exit status. */
#ifndef SLOWRANK_PROBE_COMMANDS_H
#define SLOWRANK_PROBE_COMMANDS_H
int cmd_run(int argc, char **argv);
int cmd_attach(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_stacks(int argc, char **argv);
int cmd_kernels(int argc, char **argv);
#endif
