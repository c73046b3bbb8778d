/* SPDX-License-Identifier: MPL-2.0 */
/* clock.h -- clocks, deadlines, and random numbers. */
#ifndef API_CLOCK_H
#define API_CLOCK_H

#include <stdint.h>

int64_t api_now_ns(void);
int64_t api_wall_ns(void);
/* When this process began, on the clock of api_now_ns(), perhaps a tick too early; now, if the
 * system does not tell. */
int64_t api_process_began_ns(void);
uint64_t api_random(void); /* 0: the system gives none */
/* The deadline after timeout_ms; INT64_MAX: never. */
int64_t api_deadline_ns(int64_t timeout_ms);
/* A wall clock's time for people, in UTC and whole seconds.  Returns text. */
#define API_TIME_BYTES_MAX 48
const char *api_time_text(int64_t wall_ns, char text[API_TIME_BYTES_MAX]);
/* The time left, rounded up; BUS_FOREVER for INT64_MAX. */
int64_t api_left_ms(int64_t deadline_ns);

#endif
