/* SPDX-License-Identifier: MPL-2.0 */
/* errbus.h -- the subcommands; each returns the exit code of the process. */
#ifndef CLIENTS_ERRBUS_H
#define CLIENTS_ERRBUS_H

int pub_main(int argc, char **argv);
int sub_main(int argc, char **argv);
int tap_main(int argc, char **argv);
int errors_main(int argc, char **argv);
int job_main(int argc, char **argv);
int dead_main(int argc, char **argv);
int request_main(int argc, char **argv);
int status_main(int argc, char **argv);
int verdict_main(int argc, char **argv);
int run_main(int argc, char **argv);
int worker_main(int argc, char **argv);

#endif
