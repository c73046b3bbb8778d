/* SPDX-License-Identifier: MPL-2.0 */
/* rounds.c -- rounds with N of M: three silos train, and two models are enough for a mean.
 *
 *   ./rounds mean & ./rounds silo1 & ./rounds silo2 & ./rounds silo3 */
#include <bus/bus.h>

#include <stdio.h>
#include <string.h>

enum { ROUNDS = 3, SILOS = 3, ENOUGH = 2 };

static int gather_all(struct bus *bus)
{
    for (uint64_t round = 0; round < ROUNDS; round++) {
        struct bus_want wants[SILOS] = {{"silo1/model", round, 0, 0},
                                        {"silo2/model", round, 0, 0},
                                        {"silo3/model", round, 0, 0}};
        struct bus_error *why = NULL;
        double sum = 0, count = 0; /* of all three, unless more than one fails: */
        if (bus_gather(bus, wants, SILOS, SILOS, SILOS - ENOUGH, BUS_FOREVER, &why) != BUS_OK)
            return fprintf(stderr, "round %d: %s\n", (int)round, bus_error_message(why));
        for (int i = 0; i < SILOS; i++)
            if (wants[i].msg != NULL)
                sum += *(const double *)bus_msg_value(wants[i].msg, NULL), count++;
            else
                printf("round %d: %s: no model\n", (int)round, bus_error_party(wants[i].error));
        bus_wants_free(wants, SILOS);
        printf("round %d: the mean of %.0f models is %.2f\n", (int)round, count, sum / count);
    }
    return 0;
}

/* The third silo cannot do round 1, and says so in the place of its model. */
static int train(struct bus *bus, int silo)
{
    for (int round = 0; round < ROUNDS; round++) {
        struct bus_slot *slot = NULL;
        double model = silo * 10 + round;
        if (bus_slot_reserve(bus, "model", BUS_FOREVER, &slot) != BUS_OK)
            return 1;
        int is_able = silo != 3 || round != 1;
        if (!is_able || bus_slot_commit(&slot, &model, sizeof model) != BUS_OK)
            bus_slot_fail(&slot, NULL);
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct bus *bus = NULL;
    struct bus_options options;
    bus_options_init(&options);
    options.party = argc == 2 ? argv[1] : "mean";
    if (bus_open(NULL, &options, 9000, &bus, NULL) != BUS_OK)
        return 1;
    int silo = strncmp(options.party, "silo", 4) == 0 ? options.party[4] - '0' : 0;
    int status = silo == 0 ? gather_all(bus) : train(bus, silo);
    return bus_close(&bus, 5000) != BUS_OK || status != 0;
}
