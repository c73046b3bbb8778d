/* SPDX-License-Identifier: MPL-2.0 */
/* sim_disk.h -- a disk in memory that can refuse, tear, delay and lose what is written to it.
 *
 * It knows of each file what programs see (the cache) and what would be there after a power failure
 * (the medium).  A write changes the cache; a sync brings it to the medium; in between any sector
 * may be there or not, in an earlier state, too.  Names made, changed or removed are the same: in
 * doubt until sync_names.  A sync that fails leaves the cache as it is, takes it for clean, and has
 * brought any part of it to the medium.
 *
 * The struct disk of it is the disk of one process; its close() ends that process. */
#ifndef TESTS_LIB_SIM_DISK_H
#define TESTS_LIB_SIM_DISK_H

#include "broker/journal/disk.h"

#include <semaphore.h>

#define SIM_SECTOR 512
#define SIM_NO_LIMIT UINT64_MAX

/* Calls that change something, or'ed. */
enum sim_call {
    SIM_OPEN = 1,
    SIM_WRITE = 2,
    SIM_SYNC = 4,
    SIM_RESERVE = 8,
    SIM_RENAME = 16,
    SIM_UNLINK = 32,
    SIM_SYNC_NAMES = 64,
    SIM_READ = 128, /* not counted: it changes nothing */
};

struct sim_disk;
struct sim_disk *sim_disk_new(uint64_t seed);
void sim_disk_free(struct sim_disk **sim);
/* The same files, nothing open. */
struct sim_disk *sim_disk_clone(const struct sim_disk *sim, uint64_t seed);
/* To be taken over by who uses it, once at a time. */
struct disk *sim_disk_open(struct sim_disk *sim);
/* Another process has it: who opens it does not get the lock. */
void sim_disk_take_lock(struct sim_disk *sim);

/* ---- what goes wrong ------------------------------------------------------------------------- */

/* Calls of these kinds fail with this errno, `times` times, after `skip` of them went well.  A
 * write that fails has written any part of its bytes, none and all included. */
void sim_disk_fault(struct sim_disk *sim, unsigned calls, uint64_t skip, uint64_t times, int err);
/* From so many changing calls on, nothing reaches the disk any more: all fail. */
void sim_disk_stop_after(struct sim_disk *sim, uint64_t calls);
/* Chance of the same seed, for who plans what is done: 0 .. count-1. */
uint64_t sim_disk_below(struct sim_disk *sim, uint64_t count);
/* Files that are open. */
int sim_disk_handles(const struct sim_disk *sim);
/* Changing calls so far. */
uint64_t sim_disk_calls(const struct sim_disk *sim);
/* So many bytes are on the disk in all; SIM_NO_LIMIT. */
void sim_disk_limit(struct sim_disk *sim, uint64_t bytes);
/* Its owner must say that it is there, as to a disk on another machine.  Before it is opened. */
void sim_disk_need_keeping(struct sim_disk *sim);
/* From now on each partial sync waits until this says so, once for each. */
void sim_disk_hold(struct sim_disk *sim, sem_t *held);
/* The same of each sync of a file. */
void sim_disk_hold_all(struct sim_disk *sim, sem_t *held);
/* Whether a sync waits so. */
bool sim_disk_is_held(struct sim_disk *sim);
/* A write may take less than it is given. */
void sim_disk_stint(struct sim_disk *sim);
/* A file keeps what it got of room that was refused, as on ext4. */
void sim_disk_hoard(struct sim_disk *sim);

/* The process is gone, what it wrote is in the cache. */
void sim_disk_kill(struct sim_disk *sim);
/* The machine is gone, too: what was not synced is there or not. */
void sim_disk_crash(struct sim_disk *sim);
/* The disk is another machine's now: what was not synced is not there. */
void sim_disk_move(struct sim_disk *sim);

/* ---- what is there --------------------------------------------------------------------------- */

/* The bytes of a file, to be looked at and spoiled; NULL: there is none of this name.  Good until
 * the next call. */
uint8_t *sim_disk_file(struct sim_disk *sim, const char *name, size_t *out_bytes);
void sim_disk_put(struct sim_disk *sim, const char *name, const void *data, size_t bytes);
void sim_disk_cut(struct sim_disk *sim, const char *name, size_t bytes);
void sim_disk_remove(struct sim_disk *sim, const char *name);
/* Of a file, up to this offset: bytes in whole sectors that would be lost with the machine. */
uint64_t sim_disk_unsynced(const struct sim_disk *sim, const char *name, uint64_t offset);
/* The i-th name, in order; NULL: there are not so many. */
const char *sim_disk_name(const struct sim_disk *sim, size_t i);
/* The changing calls since the last time, a letter each: o(pen) w(rite) s(ync) f(reserve) r(ename)
 * u(nlink) n(ames); and p(ush), which changes nothing that is promised. */
const char *sim_disk_told(struct sim_disk *sim);

#endif
