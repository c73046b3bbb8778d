#!/bin/sh
# SPDX-License-Identifier: MPL-2.0
# usage: self_test.sh ROOT CC CXX
# The rules are tested too: each planted violation must be found, and a tree without one must pass.
set -eu
rules=$(cd "$(dirname "$0")" && pwd)
cc=$2
cxx=$3
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
status=0

licence='/* SPDX-License-Identifier: MPL-2.0 */
/* What this file is for. */'

# clean: a tree in which no rule finds anything.
clean() {
    rm -rf "${tree:?}"/*
    mkdir -p "$tree/libbus/base" "$tree/libbus/wire" "$tree/libbus/session" "$tree/libbus/include/bus" \
        "$tree/libbus/io" "$tree/libbus/api" "$tree/broker/core/tables" "$tree/broker/core/streams" \
        "$tree/broker/core/step" "$tree/broker/io" "$tree/clients" \
        "$tree/tests/unit" "$tree/tests/system" "$tree/tests/rules" "$tree/bench" "$tree/schemas"
    echo '# none' >"$tree/tests/rules/functions.waivers"
    plant libbus/base/leaf.h '
int leaf(int a);'
    plant libbus/base/leaf.c '#include "libbus/base/leaf.h"

#include <string.h>

int leaf(int a)
{
    return a + (int)strlen("assert(1) is text here");
}'
    plant tests/unit/leaf_test.c '#include "libbus/base/leaf.h"

#include <criterion/criterion.h>

Test(leaf, adds_a_length)
{
    cr_assert(leaf(1) > 1);
}'
    plant libbus/include/bus/bus.h '#define BUS_API __attribute__((visibility("default")))
BUS_API int bus_one(void);
BUS_API const char *bus_two(int a_name_so_long_that_the_declaration,
                            int of_its_function_takes_more_lines_than_one);'
}

# plant PATH TEXT
plant() {
    printf '%s\n%s\n' "$licence" "$2" >"$tree/$1"
}

# run RULE ARGUMENT...: output in $found, status in $code.
run() {
    rule=$1
    shift
    code=0
    found=$("$rules/$rule.sh" "$tree" "$@" 2>&1) || code=$?
}

# passes RULE ARGUMENT...
passes() {
    run "$@"
    [ "$code" -eq 0 ] || { echo "$1 refuses what is right: $found"; status=1; }
}

# finds WHAT RULE ARGUMENT...: it must fail and say so in words that match WHAT.
finds() {
    what=$1
    shift
    run "$@"
    if [ "$code" -ne 1 ] || ! printf '%s\n' "$found" | grep -q -- "$what"; then
        echo "$1 does not find: $what (status $code): $found"
        status=1
    fi
    clean
}

clean
passes includes
passes functions
passes switches
passes banned
passes tests
passes headers "$cc" "$cxx"

# ---- includes ---------------------------------------------------------------------------------------
while read -r path include; do
    plant "$path" "#include $include"
    finds "^$path:3: " includes
done <<'END'
libbus/base/a.h "libbus/wire/msg.h"
libbus/wire/a.c "libbus/session/session.h"
libbus/session/a.c "libbus/io/link.h"
libbus/session/a.c "broker/core/core.h"
libbus/api/a.c "broker/core/core.h"
libbus/api/a.c "libbus/io/link_zmq.h"
libbus/io/a.c "libbus/api/bus.h"
broker/core/tables/slot_table.c "broker/core/tables/party.h"
broker/core/tables/slot_table.c "libbus/wire/msg.h"
broker/core/streams/slot.c "broker/io/loop.h"
broker/core/streams/slot.c "broker/core/settling/settle.h"
broker/core/step/slot.c "broker/core/replay/replay.h"
broker/core/streams/slot.c "libbus/session/session.h"
broker/io/loop.c "broker/core/tables/slot_table.h"
broker/io/loop.c "libbus/api/bus.h"
clients/pub.c "libbus/base/span.h"
tests/system/a_test.c "libbus/session/session.h"
bench/a.c "libbus/io/link.h"
libbus/base/a.c "leaf.h"
libbus/base/a.c "../wire/msg.h"
libbus/base/a.c <time.h>
libbus/base/a.c <stdlib.h>
libbus/wire/a.c <stdio.h>
libbus/session/a.c <threads.h>
broker/core/tables/a.c <pthread.h>
broker/core/streams/slot.c <unistd.h>
libbus/include/bus/a.h <stdio.h>
libbus/api/a.c <zmq.h>
broker/io/core_port.c <zmq.h>
broker/io/payload.h <zmq.h>
clients/cli.c <zmq.h>
broker/core/tables/a.c <msgpack.h>
libbus/io/a.c <msgpack/unpack.h>
libbus/io/a.c <czmq.h>
clients/tap.c <jansson.h>
libbus/base/a.c <criterion/criterion.h>
libbus/session/a.c <bus/bus.h>
END
plant libbus/base/a.c '/* #include <time.h>
 #include <time.h> */'
plant broker/core/tables/slot_table.c '#include "broker/core/tables/slot_table.h"
#include "broker/core/tables/event.h"
#include "libbus/base/span.h"'
plant broker/core/streams/slot.c '#include "broker/core/tables/slot_table.h"
#include "libbus/wire/msg.h"'
plant libbus/io/link_zmq.c '#include <zmq.h>'
passes includes
clean

# ---- functions --------------------------------------------------------------------------------------
# long_function NAME LINES
long_function() {
    printf 'int %s(int a)\n{\n' "$1"
    awk -v lines="$2" 'BEGIN { for (i = 1; i < lines; i++) print "    a += 1;" }'
    printf '\n    /* neither a blank\n       nor this counts */\n    return a;\n}\n'
}
plant libbus/base/long.c "$(long_function just 70)"
passes functions
plant libbus/base/long.c "$(long_function over 71)"
finds '^libbus/base/long.c:4: over has 71 lines' functions
plant libbus/base/long.c "$(long_function over 71)"
echo 'libbus/base/long.c over it is one table of steps' >"$tree/tests/rules/functions.waivers"
passes functions
echo 'libbus/base/long.c over' >"$tree/tests/rules/functions.waivers"
finds 'a waiver needs a reason' functions
plant libbus/base/long.c "$(long_function just 70)"
echo 'libbus/base/long.c just it was long once' >"$tree/tests/rules/functions.waivers"
finds 'not needed: libbus/base/long.c just' functions
plant libbus/base/branch.c 'int a(void)
{
#ifdef WITH_BROKER
    return 1;
#endif
    return 0;
}'
finds '^libbus/base/branch.c:5: #if inside a' functions

# ---- banned -----------------------------------------------------------------------------------------
while read -r path text; do
    plant "$path" "$text"
    finds "^$path:3: " banned
done <<'END'
libbus/base/a.c int a(char *b, const char *c) { return *strcpy(b, c); }
libbus/io/a.c int a(char *b) { return sprintf(b, "1"); }
clients/a.c int a(const char *b) { return atoi(b); }
broker/io/a.c char *a(char *b) { return strtok(b, ","); }
broker/io/a.c int a(void) { return rand(); }
libbus/api/a.c void a(int b) { assert(b); }
libbus/api/a.c void *a(unsigned long b) { return alloca (b); }
tests/unit/a.c void a(void) { usleep(1000); }
libbus/base/a.h typedef struct a a;
libbus/base/a.h struct a_t
clients/a.c /* TODO: the rest */
libbus/api/a.c /* given up for now */
END
plant libbus/base/a.c 'void a(void) { static_assert(1, "sprintf(a)"); my_rand(); /* gets(x) */ }'
plant tests/system/a.c 'void a(void) { usleep(1000); }'
passes banned
clean
printf 'int a;\n' >"$tree/libbus/base/a.c"
finds '^libbus/base/a.c:1: the first line is not the licence' banned
printf '/* SPDX-License-Identifier: MPL-2.0 */\nint a;\n' >"$tree/libbus/base/a.c"
finds '^libbus/base/a.c:2: ' banned
plant libbus/base/a.c "/* $(awk 'BEGIN { for (i = 0; i < 100; i++) printf "x" }') */"
finds '^libbus/base/a.c:3: longer than 100 columns' banned

# ---- switches ---------------------------------------------------------------------------------------
plant broker/io/switch.c 'int a(int b)
{
    switch (b) {
    case 1: return 1;
    default: break;
    }
    switch (b) {
    case MSG_BEAT: return 2;
    case MSG_ECHO: return 3;
    }
    return 0;
}'
passes switches
plant broker/io/switch.c 'int a(int b)
{
    switch (b) {
    case MSG_BEAT:
        switch (b) {
        case 1: return 1;
        default: return 2;
        }
    default: return 3;
    }
}'
finds '^broker/io/switch.c:11: a switch over named things has a default' switches
plant libbus/session/switch.c 'int a(int b)
{
    switch (b) {
    case TO_CLIENT_BYE: return 2;
    default: return 3;
    }
}'
finds '^libbus/session/switch.c:7: a switch over named things has a default' switches
plant libbus/api/switch.c 'int a(int b)
{
    switch (b) {
    case BUS_EFULL: return 2;
    default: return 3;
    }
}'
finds '^libbus/api/switch.c:7: a switch over named things has a default' switches
plant broker/io/switch.c 'int a(int b)
{
    switch (b) {
    case EFFECT_DROP: return 2;
    default: return 3;
    }
}'
finds '^broker/io/switch.c:7: a switch over named things has a default' switches

# ---- tests ------------------------------------------------------------------------------------------
plant tests/unit/none_test.c 'static int a;'
finds '^tests/unit/none_test.c:1: has no test' tests
plant tests/unit/other_test.c 'Test(leaf, a)
{
    cr_assert(1);
}'
finds '^tests/unit/other_test.c:3: the suite' tests
plant tests/unit/idle_test.c 'Test(idle, a)
{
    int a = 1;
}'
finds '^tests/unit/idle_test.c:3: .* states nothing' tests
plant tests/unit/after_test.c 'static void end(void)
{
    cr_assert(1);
}

TestSuite(after, .init = begin, .fini = end);

Test(after, a)
{
    cr_assert(1);
}'
finds '^tests/unit/after_test.c:8: an assertion in end' tests
mkdir -p "$tree/tests/lib"
plant tests/lib/stage.c 'void stage_close(void)
{
    cr_expect(1);
}'
plant tests/system/stage_test.c 'Test(stage, a, .init = stage_open,
     .fini = stage_close)
{
    cr_assert(1);
}'
finds '^tests/system/stage_test.c:4: an assertion in stage_close' tests
plant tests/unit/idle_test.c 'static int helper(void)
{
    return look(1);
}

Test(idle, calls_what_states_nothing)
{
    helper();
}'
finds '^tests/unit/idle_test.c:8: .* states nothing' tests
plant tests/unit/far_test.c '#define SAYS(a) helper(a)

static void helper(int a)
{
    cr_assert_eq(a, 1);
}

static void helper_of_helper(void)
{
    SAYS(1);
}

Test(far, states_through_helpers)
{
    helper_of_helper();
}

Test(far, ends_the_process,
     .signal = SIGABRT)
{
    abort();
}'
passes tests
clean

# ---- headers ----------------------------------------------------------------------------------------
plant libbus/base/lame.h 'size_t lame(void);'
finds 'libbus/base/lame.h does not compile alone' headers "$cc" "$cxx"
plant libbus/include/bus/bus.h 'enum reason { BUS_ADRALN = 7 };'
finds 'as c11: bus/bus.h signal.h' headers "$cc" "$cxx"
plant libbus/include/bus/bus.h 'int bus_new(int class);'
finds 'as c++17: bus/bus.h' headers "$cc" "$cxx"

# ---- symbols ----------------------------------------------------------------------------------------
# library TEXT [SCRIPT]: as lib.so and lib.a; SCRIPT: what the linker is told of versions.
library() {
    printf '%s\n' "$1" >"$tree/lib.c"
    plant libbus/libbus.map 'BUS_0 {'
    printf '%s\n' "${2:-$every}" >"$tree/lib.map"
    "$cc" -c -fPIC -fvisibility=hidden -o "$tree/lib.o" "$tree/lib.c"
    "$cc" -shared -Wl,--version-script="$tree/lib.map" -o "$tree/lib.so" "$tree/lib.o"
    rm -f "$tree/lib.a"
    ar rc "$tree/lib.a" "$tree/lib.o"
}
every='BUS_0 { global: *; };'
shown='__attribute__((visibility("default")))'
all="$shown int bus_one(void) { return 1; } $shown const char *bus_two(int a, int b) { return a + b ? \"\" : 0; }"
library "$all"
passes symbols "$tree/lib.so" "$tree/lib.a"
library "$all $shown int span_make(void) { return 1; }"
finds 'lib.so: exports span_make' symbols "$tree/lib.so" "$tree/lib.a"
library "$all int span_make(void) { return 1; }"
finds 'lib.a: exports span_make' symbols "$tree/lib.so" "$tree/lib.a"
library "$shown int bus_one(void) { return 1; }"
finds 'lib.so: lacks bus_two' symbols "$tree/lib.so" "$tree/lib.a"
library "$all $shown int bus_three(void) { return 1; }"
finds 'lib.so: exports bus_three, which no header declares' symbols "$tree/lib.so" "$tree/lib.a"
library "$all" 'BUS_0 { global: bus_one; }; BUS_1 { global: bus_two; };'
finds 'bus_two@@BUS_1 has no version BUS_0' symbols "$tree/lib.so" "$tree/lib.a"
library "$all" '{ global: *; };'
finds 'bus_one has no version BUS_0' symbols "$tree/lib.so" "$tree/lib.a"

# ---- prose ------------------------------------------------------------------------------------------
# page TEXT: as the only document; its table allows one long sentence, and one wide line.
page() {
    printf '%s\n' "$1" >"$tree/README.md"
}
words() {
    awk -v count="$1" 'BEGIN { for (i = 1; i <= count; i++) printf i < count ? "word\n" : "word.\n" }'
}
wide=$(awk 'BEGIN { for (i = 0; i < 20; i++) printf "12345 " }')
page "# A page

$(words 35) $(words 35)

- $(words 20)
- $(words 20)

| $(words 20 | tr '\n' ' ') | $(words 20 | tr '\n' ' ') |

    code $wide $(words 99 | tr '\n' ' ')

A new incarnation gives a sign of life:
\`libbus/base/leaf.c\`, \`leaf.h\`, \`base/*.c\`, \`alice/grads\`, \`leaf()\`,
\`leaf/adds_a_length\`, a [link](tests/unit), [one](#a-page) and [more](README.md#a-page)."
passes prose
plant tests/unit/help.c 'int help(void);'
printf 'see `help()`\n' >"$tree/tests/README.md"
printf 'it was in `gone.c`\n' >"$tree/CHANGELOG.md"
passes prose
printf 'see `help()`\n' >"$tree/README.md"
finds 'README.md:1: there is no such function: help()' prose
page "$(words 36)"
finds 'README.md:1: 36 words' prose
page "| $(words 36 | tr '\n' ' ') |"
finds 'README.md:1: 36 words' prose
page "$wide"
finds '^README.md:1: longer than 100 columns' prose
page "$(words 36) $(words 36)
$wide"
echo '2 1 README.md' >"$tree/tests/rules/prose.table"
passes prose
echo '1 1 README.md' >"$tree/tests/rules/prose.table"
finds '^README.md: 2 sentences above 35 words, allowed are 1' prose
page "$wide
$wide"
echo '2 1 README.md' >"$tree/tests/rules/prose.table"
finds '^README.md: 2 lines above 100 columns, allowed are 1' prose
page "$(words 36)"
words 36 >"$tree/tests/README.md"
echo '1 0 README.md tests/' >"$tree/tests/rules/prose.table"
finds '^README.md: 2 sentences above 35 words, allowed are 1' prose
while read -r text; do
    page "$text"
    finds '^README.md:1: ' prose
done <<'END'
see `libbus/base/gone.c`
see `gone.h`
see `broker/gone`
see `base/gone*.c`
see [it](gone.md)
see [it](#gone)
see [it](README.md#gone)
a new life of a party
between two lives
the making of a journal
see `gone()`
see `leaf/gone`
see `unit/gone`
see `rule/gone`
see `LIMIT_GONE`
END
printf '.TH A 1\n.nf\n%s\n.fi\n.TP\n.B a\n%s\n.TP\n.B b\n%s\n' "$wide" "$(words 30)" "$(words 30)" >"$tree/clients/a.1"
passes prose
printf '.Sh NAME\n%s\n.Bl -tag\n.It Fl a\n%s\n.El\n' "$(words 30)" "$(words 30)" >"$tree/clients/a.1"
passes prose
printf '.Sh NAME\n%s word\n.Li a b ;\n%s\n' "$(words 20 | tr -d .)" "$(words 20)" >"$tree/clients/a.1"
finds '^clients/a.1:2: 43 words' prose
printf '.TH A 1\nA new\n.I life\nof a\n%s\n' "$(words 34)" >"$tree/clients/a.1"
finds '^clients/a.1:2: 39 words' prose
plant libbus/base/a.c '/* It ends an old life of a party. */'
finds 'does not name: 1 lines with old words, allowed are 0' prose
plant libbus/base/a.c '/* It ends an old life of a party. */'
echo 'words 1 libbus/' >"$tree/tests/rules/prose.table"
passes prose
plant libbus/base/a.c '/* See gone.c. */'
finds '^libbus/base/a.c:3: there is no such file: gone.c' prose
plant libbus/base/a.c '/* See README.md, "Gone". */'
page '# Here'
finds '^libbus/base/a.c:3: no heading of README.md: Gone' prose
plant libbus/base/a.c '/* See leaf.c, base/leaf.h and README.md, "Here"; <gone.h>, "gone.c" and stdlib.h are not ours. */'
page '# Here'
passes prose
clean

# ---- manual -----------------------------------------------------------------------------------------
# page NAME SECTION: a man page.
page() {
    mkdir -p "$tree/man3"
    printf '.TH X 3 "" "x" "y"\n.SH NAME\nx \\- y\n.SH SYNOPSIS\n%s(void)\n.SH DESCRIPTION\n.SS "%s()"\ny\n' \
        "$1" "$2" >"$tree/man3/$1.3"
}
page bus_one bus_one
page bus_two bus_two
mkdir -p "$tree/schemas" "$tree/clients"
echo 'EVENT(A_ROSE, "a.rose", "what")' >"$tree/schemas/errors.def"
echo '.It Li a.rose' >"$tree/clients/errbus-tap.1"
echo '/* "a.rose" */' >"$tree/libbus/include/bus/tap.h"
passes manual "$tree/man3"
echo '/* "a.ruse" */' >"$tree/libbus/include/bus/tap.h"
finds 'the event a.rose is not in libbus/include/bus/tap.h' manual "$tree/man3"
finds 'errors.def has no events' manual "$tree/man3"
page bus_two bus_two
finds 'bus_one has no man page' manual "$tree/man3"
page bus_one bus_two
page bus_two bus_two
finds 'bus_one: bus_one.3 has no line as' manual "$tree/man3"

# ---- purity -----------------------------------------------------------------------------------------
# object NAME TEXT
object() {
    printf '%s\n' "$2" >"$tree/$1"
    "$cc" -c -o "$tree/$1.o" "$tree/$1"
}
object leaf.c 'void *memcpy(void *, const void *, unsigned long); int leaf(void *a, void *b, unsigned long c)
    { return memcpy(a, b, c) == a; }'
object up.c 'int leaf(void *, void *, unsigned long); int up(void) { return leaf(0, 0, 0); }'
passes purity libbus_base "$tree/leaf.c.o" -- libbus_session "$tree/up.c.o"
finds 'libbus_base: up.c uses leaf' purity libbus_base "$tree/up.c.o" -- broker_core "$tree/leaf.c.o"
object clock.c 'long time(long *); long now(void) { return time(0); }'
finds 'broker_core: clock.c uses time' purity broker_core "$tree/clock.c.o"
object heap.c 'void *malloc(unsigned long); void *heap(void) { return malloc(9); }'
finds 'libbus_session: heap.c uses malloc' purity libbus_session "$tree/heap.c.o"

# ---- layers -----------------------------------------------------------------------------------------
# layered NAME TEXT: a file of libbus/session, and its object as the build has it; $objects grows.
objects=
layered() {
    mkdir -p "$tree/libbus/CMakeFiles/x.dir/session"
    plant "libbus/session/$1.c" "$2"
    "$cc" -I "$tree" -c -o "$tree/libbus/CMakeFiles/x.dir/session/$1.c.o" "$tree/libbus/session/$1.c"
    objects="$objects $tree/libbus/CMakeFiles/x.dir/session/$1.c.o"
}
# room ROOM/NAME TEXT: the same of broker/core.
room() {
    mkdir -p "$tree/broker/CMakeFiles/x.dir/core/${1%/*}" "$tree/broker/core/${1%/*}"
    plant "broker/core/$1.c" "$2"
    "$cc" -I "$tree" -c -o "$tree/broker/CMakeFiles/x.dir/core/$1.c.o" "$tree/broker/core/$1.c"
    objects="$objects $tree/broker/CMakeFiles/x.dir/core/$1.c.o"
}
# finds_layers WHAT, passes_layers: over $objects.
finds_layers() {
    # shellcheck disable=SC2086
    finds "$1" layers $objects
    objects=
}
layered rows 'int rows(void) { return 1; }'
layered session_in 'int rows(void); int in(void) { return rows(); }'
# shellcheck disable=SC2086
passes layers $objects
layered once 'int in(void); int once(void) { return in(); }'
finds_layers 'session/once (layer 1) calls in() of libbus/session/session_in (layer 16)'
layered rows 'int rows(void) { return 1; }'
layered once 'int rows(void); int once(void) { return rows(); }'
finds_layers 'session/once (layer 1) calls rows() of libbus/session/rows (layer 1)'
layered unheard 'int unheard(void) { return 1; }'
finds_layers 'libbus/session/unheard: has no row in layers.table'
room record/tell 'int tell(void) { return 1; }'
room lifecycle/ending 'int tell(void); int ending(void) { return tell(); }'
room lifecycle/session 'int ending(void); int session(void) { return ending(); }'
# shellcheck disable=SC2086
passes layers $objects
room record/courier 'int ending(void); int courier(void) { return ending(); }'
finds_layers 'record/courier (layer 4) calls ending() of broker/core/lifecycle/ending (layer 10)'
room replay/replay 'int replay(void) { return 1; }'
room step/core 'int replay(void); int core(void) { return replay(); }'
finds_layers 'step/core (layer 14) calls replay() of broker/core/replay/replay (layer 14)'
mkdir -p "$tree/broker/core/record"
plant broker/core/record/tell.h '#include "broker/core/streams/sub.h"'
finds_layers 'record/tell.h (layer 4) includes broker/core/streams/sub.h (layer 5)'
# A circle: thread and courier of libbus/api may call each other, others on their layer may not.
circle() {
    mkdir -p "$tree/libbus/CMakeFiles/x.dir/api"
    plant "libbus/api/$1.c" "$2"
    "$cc" -c -o "$tree/libbus/CMakeFiles/x.dir/api/$1.c.o" "$tree/libbus/api/$1.c"
    objects="$objects $tree/libbus/CMakeFiles/x.dir/api/$1.c.o"
}
circle thread 'int courier(void); int thread(void) { return courier(); }'
circle courier 'int thread(void); int courier(void) { return thread(); }'
# shellcheck disable=SC2086
passes layers $objects
circle lane_wait 'int thread(void); int lane_wait(void) { return thread(); }'
finds_layers 'lane_wait (layer 9) calls thread() of libbus/api/thread (layer 9)'
plant libbus/session/once.h '#include "libbus/session/model.h"'
finds_layers 'once.h (layer 1) includes libbus/session/model.h (layer 5)'

# ---- sizes ------------------------------------------------------------------------------------------
# long_file PATH LINES
long_file() {
    mkdir -p "$tree/${1%/*}"
    awk -v lines="$2" 'BEGIN { for (i = 0; i < lines; i++) print "" }' >"$tree/$1"
}
echo '# none' >"$tree/tests/rules/sizes.waivers"
long_file broker/core/tables/long.c 900
long_file broker/core/tables/long.h 400
passes sizes
long_file broker/core/tables/long.c 901
finds 'tables/long.c: 901 lines, more than 900' sizes
echo '# none' >"$tree/tests/rules/sizes.waivers"
long_file libbus/api/long.h 401
finds 'api/long.h: 401 lines, more than 400' sizes
long_file libbus/api/long.h 401
echo 'libbus/api/long.h 500 it is the manual' >"$tree/tests/rules/sizes.waivers"
passes sizes
long_file libbus/api/long.h 501
echo 'libbus/api/long.h 500 it is the manual' >"$tree/tests/rules/sizes.waivers"
finds 'api/long.h: 501 lines, more than 500' sizes
long_file libbus/api/long.h 400
echo 'libbus/api/long.h 500 it is the manual' >"$tree/tests/rules/sizes.waivers"
finds 'not needed: libbus/api/long.h' sizes
echo 'libbus/api/long.h 500' >"$tree/tests/rules/sizes.waivers"
finds 'a waiver needs a number of lines and a reason' sizes
clean

# ---- walks ------------------------------------------------------------------------------------------
mkdir -p "$tree/broker/core/streams"
plant broker/core/streams/sub.c 'void sub_mark(int sub)
{
    (void)sub;
}'
echo '| `streams/sub.c` | `sub_mark()` | it is ready |' >"$tree/broker/core/README.md"
passes walks
plant broker/core/streams/sub.c 'void sub_ready(int sub)
{
    sub_mark(sub);
}'
echo '| `streams/sub.c` | `sub_ready()`, `sub_mark()` | it is ready |' >"$tree/broker/core/README.md"
finds 'README.md: streams/sub.c has no sub_mark()' walks
clean
plant libbus/api/publish.c 'int bus_publish(int topic)
{
    return topic;
}'
echo '| `api/publish.c` | `bus_publish()` | it begins |' >"$tree/libbus/README.md"
passes walks
echo '| `api/publish.c` | `bus_publish()`, `publish()` | it begins |' >"$tree/libbus/README.md"
finds 'libbus/README.md: api/publish.c has no publish()' walks
clean

# ---- names ------------------------------------------------------------------------------------------
mkdir -p "$tree/broker/core/record"
plant broker/core/streams/sub.c 'static int move(int a)
{
    return a;
}'
plant broker/core/record/tell.c 'static int move_on(int a)
{
    return a;
}'
passes names
plant broker/core/record/tell.c 'static struct list *move(int a)
{
    return a;
}'
finds 'move is a local function of broker/core/record/tell.c, too' names
clean
mkdir -p "$tree/broker/journal"
plant broker/io/a.c 'static int move(int a)
{
    return a;
}'
plant broker/journal/b.c 'static int move(int a)
{
    return a;
}'
finds 'move is a local function of broker/io/a.c, too' names
clean

# ---- nothing to read --------------------------------------------------------------------------------
for rule in banned walks; do
    rm -rf "${tree:?}"/*
    finds 'there is no C file' "$rule"
done
for rule in names sizes switches; do
    rm -rf "${tree:?}"/*
    mkdir "$tree/bench"
    plant bench/a.c 'int a;'
    finds 'there is no C file as' "$rule"
done

# ---- programs ---------------------------------------------------------------------------------------
finds 'no program was found' programs
plant tests/system/kept_test.c 'int a;'
printf '| `system/kept_test.c` | what is kept |\n' >"$tree/tests/README.md"
passes programs
printf 'no row for `system/kept_test.c`\n' >"$tree/tests/README.md"
finds 'no row for system/kept_test.c' programs

# ---- format -----------------------------------------------------------------------------------------
if command -v clang-format >/dev/null; then
    cp "$rules/../../.clang-format" "$tree/.clang-format"
    passes format
    plant libbus/base/a.c 'int  a( void ){return 1;}'
    finds 'clang-formatted' format
fi

exit $status
