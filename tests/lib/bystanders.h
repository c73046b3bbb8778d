/* SPDX-License-Identifier: MPL-2.0 */
/* bystanders.h -- two parties that work while others misbehave: the writer publishes to its topic
 * w, the reader receives.  As expect.h, from the test's own thread alone. */
#ifndef TESTS_LIB_BYSTANDERS_H
#define TESTS_LIB_BYSTANDERS_H

#include <bus/bus.h>
#include <stdint.h>

struct bystanders {
    struct bus *writer;
    struct bus *reader;
    struct bus_sub *sub; /* the reader's, of writer/w */
    uint64_t next_seq;   /* of the next value */
};

/* Those of the running test. */
extern struct bystanders bystanders;

void bystanders_open(void);
void bystanders_close(void);
/* A value goes from one to the other, neither has failed, and the stage's broker is there. */
void bystanders_expect_undisturbed(void);

#endif
