/* SPDX-License-Identifier: MPL-2.0 */
/* signals.h -- the signals that end the broker, SIGHUP, and SIGCHLD, as a descriptor that its loop
 * reads; and what they do before that. */
#ifndef IO_SIGNALS_H
#define IO_SIGNALS_H

struct signalfd_siginfo;

/* The broker starts: SIGTERM and SIGINT end the process at once with status 0, for nobody was
 * promised anything yet.  SIGHUP and SIGCHLD wait for the loop. */
void signals_end_start(void);
/* From here on all of them wait for the loop.  A thread that is made now takes none. */
void signals_wait(void);

/* Behind signals_wait().  -1: there is no descriptor. */
int signals_open(void);
/* Closes the descriptor (-1: none).  From here on a signal has its usual effect: nobody reads the
 * descriptor any more. */
void signals_release(int fd);
/* Logs who sent the signal that ends the broker: process 1 is a service manager; a terminal has no
 * process. */
void signals_log_stop(const struct signalfd_siginfo *info);

#endif
