# SPDX-License-Identifier: MPL-2.0
"""Makes the extension errbus._errbus: cffi in API mode over the public headers of libbus.

The declarations are the headers' own: they are read from bus/*.h of the library that the extension
is linked with.  So the two cannot differ, and the C compiler checks them once more.

The headers and the library are those of pkg-config, unless ERRBUS_INCLUDE and ERRBUS_LIB name
their folders, as the build of Errbus itself does.  The extension looks for the library where it was
linked with it; ERRBUS_RUNPATH names another folder, or none.
"""
import os
import re
import subprocess
from typing import List

import cffi

HEADERS = ["bus.h", "admin.h", "dead.h", "report.h", "tap.h", "why.h", "access.h", "seal.h"]

# What C does for Python: to free things when Python's collector runs, on any thread and without
# calling Python; to keep a list of values that the library no longer reads; to look for answers.
SHIM = """
#include <bus/access.h>
#include <bus/dead.h>
#include <bus/report.h>
#include <bus/seal.h>
#include <bus/tap.h>
#include <bus/why.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

static void shim_msg_free(struct bus_msg *msg) { bus_msg_free(&msg); }
static void shim_slot_fail(struct bus_slot **slot) { bus_slot_fail(slot, NULL); }
static void shim_sub_close(struct bus_sub *sub) { bus_sub_close(&sub); }
static void shim_bus_close(struct bus **bus) { (void)bus_close(bus, BUS_POLL); }
static void shim_error_unref(struct bus_error *error) { bus_error_unref(&error); }

/* What a receive gave, in one place.  A signal may interrupt Python between any two of its steps, and
 * then the outcome is still here. */
struct shim_outcome {
    int code; /* BUS_ETIMEDOUT: nothing came yet */
    struct bus_msg *msg;
    struct bus_error *error;
    const struct bus_event *event; /* the tap's own */
};
static void shim_outcome_drop(struct shim_outcome *o)
{
    bus_msg_return(&o->msg);
    bus_error_unref(&o->error);
}
static int shim_sub_recv(struct bus_sub *sub, int64_t timeout_ms, struct shim_outcome *o)
{
    bus_error_unref(&o->error);
    return o->code = bus_sub_recv(sub, timeout_ms, &o->msg, &o->error);
}
static int shim_tap_next(struct bus_tap *tap, int64_t timeout_ms, struct shim_outcome *o)
{
    bus_error_unref(&o->error);
    return o->code = bus_tap_next(tap, timeout_ms, &o->event, &o->error);
}

/* Values that bus_slot_commit_owned() gave back: a stack; Python takes all of it. */
struct shim_released { struct shim_released *next; uint64_t number; };
static _Atomic(struct shim_released *) shim_released_first;
static void shim_release(void *value, void *arg)
{
    struct shim_released *one = arg;
    (void)value;
    one->next = atomic_load(&shim_released_first);
    while (!atomic_compare_exchange_weak(&shim_released_first, &one->next, one))
        continue;
}
static enum bus_err shim_commit_owned(struct bus_slot **slot, void *value, size_t bytes,
                                      uint64_t number)
{
    struct shim_released *one = malloc(sizeof *one);
    if (one == NULL)
        return BUS_ENOMEM;
    one->number = number;
    enum bus_err err = bus_slot_commit_owned(slot, value, bytes, shim_release, one);
    if (err != BUS_OK && *slot != NULL)
        free(one); /* it was not taken over, and shim_release() is never called */
    return err;
}
static size_t shim_released(uint64_t *out_numbers, size_t room)
{
    size_t count = 0;
    struct shim_released *one = atomic_exchange(&shim_released_first, NULL);
    while (one != NULL && count < room) {
        struct shim_released *next = one->next;
        out_numbers[count++] = one->number;
        free(one);
        one = next;
    }
    while (one != NULL) { /* for the next call */
        struct shim_released *next = one->next;
        shim_release(NULL, one);
        one = next;
    }
    return count;
}

/* Takes the answers that are here; the indexes of the wants that have one now. */
static enum bus_err shim_answers(struct bus *bus, struct bus_want *wants, size_t count,
                                 uint32_t *out_indexes, size_t *out_count,
                                 struct bus_error **reterr)
{
    enum bus_err err = bus_gather(bus, wants, count, count, count, BUS_POLL, reterr);
    *out_count = 0;
    for (size_t i = 0; i < count; i++)
        if (wants[i].msg != NULL || wants[i].error != NULL)
            out_indexes[(*out_count)++] = (uint32_t)i;
    return err;
}

static struct bus_error *shim_error_new(const char *type, const struct bus_error *cause,
                                        const char *message)
{
    return bus_error_new(type, cause, "%s", message);
}
static void shim_bus_options_init(struct bus_options *o) { bus_options_init(o); }
static void shim_slot_options_init(struct bus_slot_options *o) { bus_slot_options_init(o); }
static void shim_sub_options_init(struct bus_sub_options *o) { bus_sub_options_init(o); }
static void shim_tap_options_init(struct bus_tap_options *o) { bus_tap_options_init(o); }
static void shim_admin_options_init(struct bus_admin_options *o) { bus_admin_options_init(o); }
static void shim_job_options_init(struct bus_job_options *o) { bus_job_options_init(o); }
static const void *shim_bytes_at(const void *bytes, size_t offset)
{
    return (const char *)bytes + offset;
}
"""

SHIM_DECLARATIONS = """
void shim_msg_free(struct bus_msg *msg);
void shim_slot_fail(struct bus_slot **slot);
void shim_sub_close(struct bus_sub *sub);
void shim_bus_close(struct bus **bus);
struct shim_outcome {
    int code;
    struct bus_msg *msg;
    struct bus_error *error;
    const struct bus_event *event;
};
void shim_outcome_drop(struct shim_outcome *o);
int shim_sub_recv(struct bus_sub *sub, int64_t timeout_ms, struct shim_outcome *o);
int shim_tap_next(struct bus_tap *tap, int64_t timeout_ms, struct shim_outcome *o);
void shim_error_unref(struct bus_error *error);
enum bus_err shim_commit_owned(struct bus_slot **slot, void *value, size_t bytes, uint64_t number);
size_t shim_released(uint64_t *out_numbers, size_t room);
enum bus_err shim_answers(struct bus *bus, struct bus_want *wants, size_t count,
                          uint32_t *out_indexes, size_t *out_count, struct bus_error **reterr);
struct bus_error *shim_error_new(const char *type, const struct bus_error *cause,
                                 const char *message);
void shim_bus_options_init(struct bus_options *o);
void shim_slot_options_init(struct bus_slot_options *o);
void shim_sub_options_init(struct bus_sub_options *o);
void shim_tap_options_init(struct bus_tap_options *o);
void shim_admin_options_init(struct bus_admin_options *o);
void shim_job_options_init(struct bus_job_options *o);
const void *shim_bytes_at(const void *bytes, size_t offset);
extern "Python" int errbus_take_bytes(const void *bytes, size_t count, void *arg);
"""


def pkg_config(*words: str) -> List[str]:
    try:
        run = subprocess.run(["pkg-config", *words, "libbus"], stdout=subprocess.PIPE, check=True)
    except (OSError, subprocess.CalledProcessError):
        raise SystemExit(
            "errbus: pkg-config does not find libbus: install Errbus, and set PKG_CONFIG_PATH to "
            "the folder of its libbus.pc (PREFIX/lib/pkgconfig)"
        ) from None
    return run.stdout.decode().split()


def include_dir() -> str:
    return os.environ.get("ERRBUS_INCLUDE") or pkg_config("--variable=includedir")[0]


def library_dir() -> str:
    return os.environ.get("ERRBUS_LIB") or pkg_config("--variable=libdir")[0]


def run_path() -> List[str]:
    named = os.environ.get("ERRBUS_RUNPATH", library_dir())
    return [named] if named else []


def header(name: str) -> str:
    with open(os.path.join(include_dir(), "bus", name), encoding="utf-8") as file:
        return file.read()


def version() -> str:
    numbers = re.findall(r"^#define BUS_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)$", header("bus.h"), re.M)
    return ".".join(numbers)


def declarations(text: str) -> str:
    """What cffi reads of a header: all that it declares, and the names of its numbers."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    text = text.replace("\\\n", " ")
    text = re.sub(r"#ifdef __cplusplus.*?#endif", "", text, flags=re.S)
    numbers = re.findall(r"^#define (BUS_[A-Z_]+) +(?:INT64_C\(-?\d+\)|\d+|UINT64_MAX) *$", text, re.M)
    text = re.sub(r"^ *#.*$", "", text, flags=re.M)
    text = re.sub(r"\bBUS_(?:API|MUST_USE)\b|\bBUS_PRINTF\([^)]*\)", "", text)
    return "".join(f"#define {name} ...\n" for name in numbers) + text


ffi = cffi.FFI()
ffi.cdef("\n".join(declarations(header(name)) for name in HEADERS) + SHIM_DECLARATIONS)
ffi.set_source(
    "errbus._errbus",
    SHIM,
    include_dirs=[include_dir()],
    library_dirs=[library_dir()],
    libraries=["bus"],
    runtime_library_dirs=run_path(),
    extra_compile_args=["-std=c11", "-D_GNU_SOURCE"],
    py_limited_api=True,
)

if __name__ == "__main__":
    import sys

    ffi.compile(tmpdir=sys.argv[1], verbose=False)
