#!/bin/sh
# SPDX-License-Identifier: MPL-2.0
# usage: service.sh SOURCE BUILD
# The unit of systemd: it is well formed, exposes little, and its user can be made.  The broker, and
# errbus web as its child, make no system call, and open no socket, that the unit forbids.
set -eu
source=$1
build=$2
unit=$source/broker/service/errbusd.service
work=$(mktemp -d)
broker= # strace; the broker is its child, and would go on without it
end() {
    # shellcheck disable=SC2046 # several words, or none
    [ -z "$broker" ] || kill $(cat "/proc/$broker/task/$broker/children") "$broker" 2>/dev/null || true
    rm -rf "$work"
}
trap end EXIT

# shellcheck source=tests/lib/faults.sh
. "$(dirname "$0")/../lib/faults.sh"
evidence="$work/log $work/errors"

for tool in systemd-analyze systemd-sysusers strace; do
    command -v "$tool" >/dev/null || {
        echo "skipped: no $tool here (packages systemd, strace)"
        exit 77
    }
done

# ---- the unit -----------------------------------------------------------------------------------
# Where the tree is not installed, systemd finds neither the program nor its page.
sed -e "s|^ExecStart=errbusd |ExecStart=$build/broker/errbusd |" -e '/^Documentation=/d' "$unit" \
    >"$work/errbusd.service"
systemd-analyze verify "$work/errbusd.service" >"$work/log" 2>&1 || die "the unit is not well formed"
[ ! -s "$work/log" ] || die "systemd warns of the unit"
systemd-analyze security --offline=true --threshold=15 "$work/errbusd.service" >"$work/log" ||
    die "the unit exposes more than 1.5 of 10"
# The limit is one that can be missed.
sed -i '/^NoNewPrivileges=/d; /^CapabilityBoundingSet=/d' "$work/errbusd.service"
! systemd-analyze security --offline=true --threshold=15 "$work/errbusd.service" >"$work/log" ||
    die "a unit with all capabilities passes, too"

mkdir -p "$work/root/etc"
systemd-sysusers --root="$work/root" "$source/broker/service/errbus.sysusers" >"$work/log" 2>&1 ||
    die "the user cannot be made"
grep -q '^errbus:.*:/var/lib/errbus:' "$work/root/etc/passwd" || die "the user errbus was not made"

# ---- system calls -------------------------------------------------------------------------------
# The names that the unit allows, one a line.
systemd-analyze syscall-filter >"$work/groups" 2>"$work/log" || die "no groups of calls"
allowed() {
    sed -n 's/^SystemCallFilter=//p' "$unit" | awk -v groups="$work/groups" '
        # Adds what a group has to the set, or takes it out.
        function change(name, is_added,    parts, count, i) {
            if (name !~ /^@/) {
                if (is_added) set[name] = 1; else delete set[name]
                return
            }
            if (!(name in members)) {
                print "no group " name >"/dev/stderr"
                exit 1
            }
            count = split(members[name], parts, " ")
            for (i = 1; i <= count; i++)
                change(parts[i], is_added)
        }
        BEGIN {
            while ((getline line < groups) > 0) {
                if (line ~ /^@/) { group = line; members[group] = "" }
                else if (line ~ /^    [@a-z_]/) members[group] = members[group] " " line
            }
        }
        {
            is_added = !sub(/^~/, "")
            for (field = 1; field <= NF; field++)
                change($field, is_added)
        }
        END { for (name in set) print name }
    ' | sort
}
allowed >"$work/allowed"
grep -qx read "$work/allowed" || die "the unit does not even allow read"
! grep -qx setuid "$work/allowed" || die "the unit allows setuid"

is_web=
# Asks errbus web for the page, figures and events, as a browser and Prometheus do.
look_at_page() {
    tries=0
    until grep -q 'errbus web: ready: ' "$work/errors"; do
        tries=$((tries + 1))
        [ "$tries" -lt 600 ] || die "errbus web is not ready"
        sleep 0.1
    done
    origin=$(sed -n 's/^errbus web: ready: //p' "$work/errors")
    python3 - "$origin" >"$work/log" 2>&1 <<'END' || die "errbus web does not serve what it has"
import sys
from urllib.request import urlopen

for path in ("/", "/metrics", "/readyz", "/api/status", "/api/why?job=default"):
    with urlopen(sys.argv[1] + path, timeout=60) as answer:
        assert answer.read(), path
with urlopen(sys.argv[1] + "/api/stream?job=default&from=1", timeout=60) as stream:
    while not stream.readline().startswith(b"data: "):
        pass
END
}

# expect_allowed WHO: what is in the trace lies within the unit.
#
# On a busy machine strace was seen to print the id of a process as the number of its call, once in
# sixty runs: process 466 made syscall_0x1d2(. Such a number is no call, and neither is one above
# 0xfff, which Linux has not.
is_mistaken() {
    [ "$(($1))" -gt 4095 ] || grep -q "^$(($1)) " "$work/trace"
}
expect_allowed() {
    {
        sed -n -e '/^[0-9]* *syscall_0x/d' -e 's/^[0-9]* *\([a-z_0-9]*\)(.*/\1/p' "$work/trace"
        sed -n 's/^[0-9]* *syscall_\(0x[0-9a-f]*\)(.*/\1/p' "$work/trace" |
            while read -r number; do
                is_mistaken "$number" || echo "syscall_$number"
            done
    } | sort -u >"$work/calls"
    [ "$(wc -l <"$work/calls")" -gt 30 ] || die "$1: strace saw too few calls"
    comm -23 "$work/calls" "$work/allowed" >"$work/forbidden"
    while read -r call; do
        grep -m 3 "^[0-9]* *$call(" "$work/trace"
    done <"$work/forbidden" >"$work/log"
    [ ! -s "$work/forbidden" ] || die "$1: calls that the unit forbids"
    families=$(sed -n 's/^RestrictAddressFamilies=//p' "$unit")
    sed -n 's/^.* socket(\(AF_[A-Z0-9_]*\),.*/\1/p' "$work/trace" | sort -u >"$work/families"
    [ -s "$work/families" ] || die "strace saw no socket"
    while read -r family; do
        case " $families " in *" $family "*) ;; *) die "$1: the unit forbids $family" ;; esac
    done <"$work/families"
    # What MemoryDenyWriteExecute= refuses.
    ! grep -E ' (mmap|mprotect|pkey_mprotect)\(.*(PROT_WRITE\|PROT_EXEC|mprotect.*PROT_EXEC)' "$work/trace" \
        >"$work/log" || die "$1: memory that the unit forbids"
}

# run OPTION...: a broker under strace that serves a value, an error and a reload, and stops.
run() {
    mkdir -p "$work/state"
    : >"$work/ready" # nothing of the broker before
    STATE_DIRECTORY=$work/state strace -f -qq -o "$work/trace" "$build/broker/errbusd" "$@" \
        >"$work/ready" 2>"$work/errors" &
    broker=$!
    tries=0
    until grep -q '^errbusd ready' "$work/ready"; do
        kill -0 "$broker" 2>/dev/null || die "errbusd $*: does not start"
        tries=$((tries + 1))
        [ "$tries" -lt 600 ] || die "errbusd $*: is not ready"
        sleep 0.1
    done
    ERRBUS_SERVER=$(sed -n 's/^errbusd ready control=\([^ ]*\) .*/\1/p' "$work/ready")
    export ERRBUS_SERVER
    echo one | "$build/clients/errbus" pub -p alice a >"$work/log" 2>&1 || die "no value is published"
    got=$("$build/clients/errbus" sub -p bob -C 1 -W 60 alice/a 2>"$work/log") || die "no value comes"
    [ "$got" = one ] || die "bob gets '$got'"
    "$build/clients/errbus" status >"$work/log" 2>&1 || die "no status"
    [ -z "$is_web" ] || look_at_page
    child=$(cat "/proc/$broker/task/$broker/children")
    kill -HUP $child
    kill -TERM $child
    wait "$broker" || die "errbusd $*: ends with $?"
    broker=
    expect_allowed "errbusd $*"
}
run --control 'tcp://127.0.0.1:*' --data 'tcp://127.0.0.1:*'
# An interface is looked up by netlink; at `process` the journal syncs in another way.
run --control 'tcp://lo:*' --data 'tcp://lo:*' --open --durability process --log json
grep -q AF_NETLINK "$work/families" || die "no interface was looked up"
# errbus web is a child of the broker, and has no other rights.
if [ -x "$build/clients/errbus-web" ]; then
    {
        echo "uid tester $(id -u)"
        echo "allow tester party as alice bob in *"
        echo "allow tester tap status in *"
    } >"$work/access"
    is_web=1
    run --control "ipc://$work/control" --data "ipc://$work/data" --access "$work/access" \
        --web 127.0.0.1:0
    # The broker's memory is its own (PR_SET_DUMPABLE): strace tells a user of no names there.
    [ "$(grep -c ' execve(' "$work/trace")" = 2 ] || die "strace did not see errbus web"
    grep -qx memfd_create "$work/calls" || die "errbus web got no key"
    grep -qx listen "$work/calls" || die "errbus web does not listen"
    # Under nice(1) it may be as low as that already (clients/web/priority.h).
    [ "$(nice)" -ge 10 ] || grep -qx setpriority "$work/calls" ||
        die "errbus web does not stay behind the broker"
    grep -qx sched_setscheduler "$work/calls" || die "errbus web is no batch process"
fi
# Brokers as the system tests have them: keys and access files, large values and attachments,
# sealed traces, journals in files and in PostgreSQL, shards, a backup, restarts, a fenced broker,
# and a manager that is told.  Floods and quotas count by time, and strace takes too much of it.  The
# tracer is a process apart, so signals reach the broker.  The broker of disks that fail is traced,
# too: what errbusd does then, it does nowhere else.
mkdir "$work/traces"
for program in broker/errbusd tests/errbusd_failpoints; do
    cat >"$work/${program##*/}" <<END
#!/bin/sh
exec strace -D -f -qq -o "$work/traces/\$\$" "$build/$program" "\$@"
END
    chmod +x "$work/${program##*/}"
done
for test in access attachment backup durable fence postgres restart rotation seal service shards_key \
    spill store_tools web_child; do
    program=$build/tests/system_$test
    [ -x "$program" ] || continue # a build that is not for tests
    ERRBUSD=$work/errbusd ERRBUSD_FAILPOINTS=$work/errbusd_failpoints \
        ERRBUS=$build/clients/errbus TEST_PARTY=$build/tests/test_party \
        STATE_DIRECTORY=/dev/null "$program" >"$work/log" 2>&1 || die "system/$test fails under strace"
    find "$work/traces" -type f -exec cat {} + >"$work/trace"
    find "$work/traces" -type f -delete
    case $test in
    postgres | shards* | store_*)
        [ -s "$work/trace" ] || continue # PostgreSQL is not installed
        ;;
    esac
    expect_allowed "the brokers of system/$test"
done
echo "the unit is well formed, and forbids nothing that the broker and errbus web do"
