/* SPDX-License-Identifier: MPL-2.0 */
/* event_fd.h -- descriptors that become readable when something happened. */
#ifndef API_EVENT_FD_H
#define API_EVENT_FD_H

int api_event_fd(void); /* -1: none is to be had */
/* fd -1: nothing happens. */
void api_signal_fd(int fd);
void api_clear_fd(int fd);

#endif
