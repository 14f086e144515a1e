/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points of the coordinator's subcommands. argv[0] is the subcommand's name. Return: exit status. */
#ifndef SLOWRANK_COORDINATOR_COMMANDS_H
#define SLOWRANK_COORDINATOR_COMMANDS_H
int cmd_coordinator(int argc, char **argv);
int cmd_report(int argc, char **argv);
int cmd_watch(int argc, char **argv);
int cmd_export(int argc, char **argv);
int cmd_history(int argc, char **argv);
int cmd_import(int argc, char **argv);
int cmd_key(int argc, char **argv);
#endif
