/* SPDX-License-Identifier: MPL-2.0 */
/* signals.h -- the signals that end the broker, SIGHUP, and SIGCHLD, as a descriptor that its loop
 * reads. */
#ifndef IO_SIGNALS_H
#define IO_SIGNALS_H

struct signalfd_siginfo;

/* They are blocked by then.  -1: there is no descriptor. */
int signals_open(void);
/* Closes the descriptor (-1: none).  From here on a signal has its usual effect: nobody reads the
 * descriptor any more. */
void signals_release(int fd);
/* Logs who sent the signal that ends the broker: process 1 is a service manager; a terminal has no
 * process. */
void signals_log_stop(const struct signalfd_siginfo *info);

#endif
