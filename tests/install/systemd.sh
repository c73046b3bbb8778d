#!/bin/sh
# SPDX-License-Identifier: MPL-2.0
# usage: systemd.sh BUILD CMAKE
# A real systemd runs the unit as it is installed: it starts, serves, reloads, is started again after
# a crash and after a hang, lives through a long replay, stays away when it was started wrongly, and
# stops.
#
# systemd is process 1 of namespaces of its own, with a cgroup of its own, and copies of /etc and
# /var that are dropped in the end.  It knows this unit alone.  Where the machine makes no such
# namespaces (it takes root), the test is skipped.
set -eu
build=$1
cmake=$2
work=$(mktemp -d)
launcher= # unshare; systemd is its child, and ends with it
init=
cgroup=
end() {
    [ -z "$init" ] || kill -KILL "$init" 2>/dev/null || true
    [ -z "$launcher" ] || wait "$launcher" 2>/dev/null || true
    tries=0
    while [ -n "$cgroup" ] && [ -d "$cgroup" ] && [ "$tries" -lt 50 ]; do
        find "$cgroup" -depth -type d -exec rmdir {} + 2>/dev/null || sleep 0.1
        tries=$((tries + 1))
    done
    rm -rf "$work"
}
trap end EXIT

# shellcheck source=tests/lib/faults.sh
. "$(dirname "$0")/../lib/faults.sh"
evidence="$work/systemd $work/errbusd.log $work/log"

skip() {
    echo "skipped: $*"
    exit 77
}

[ "$(id -u)" -eq 0 ] || skip "namespaces with a systemd in them need root"
[ -x /lib/systemd/systemd ] || skip "no systemd here (package systemd)"
for tool in unshare nsenter ip python3; do
    command -v "$tool" >/dev/null || skip "no $tool here (packages util-linux, iproute2, python3)"
done

# ---- a systemd of its own ------------------------------------------------------------------------
hierarchy=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
[ -n "$hierarchy" ] || skip "no cgroup2 is mounted"
cgroup=$hierarchy/errbus-test-$$
mkdir "$cgroup" 2>"$work/log" || {
    cgroup=
    skip "no cgroup can be made below $hierarchy"
}

"$cmake" --install "$build" --prefix "$work/local" >"$work/log" 2>&1 || die "cannot install"
mkdir "$work/scratch"
: >"$work/errbusd.log"
chmod 755 "$work"
chmod 666 "$work/errbusd.log"
# $1: the folder of the test.  What systemd looks for is there, and nothing that starts more.
cat >"$work/become" <<'END'
set -eu
mount --make-rprivate /
mount -t tmpfs -o mode=755 tmpfs "$1/scratch"
for name in etc var; do
    mkdir -p "$1/scratch/$name.upper" "$1/scratch/$name.work"
    mount -t overlay -o "lowerdir=/$name,upperdir=$1/scratch/$name.upper,workdir=$1/scratch/$name.work" \
        overlay "/$name"
done
mount --bind "$1/local" /usr/local
mount -t tmpfs -o mode=755 tmpfs /run
umount -l /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
ip link set lo up
mkdir -p /run/units/errbusd.service.d /etc/errbus
for unit in start sysinit basic shutdown network-online; do
    printf '[Unit]\nDescription=%s\nDefaultDependencies=no\n' "$unit" >"/run/units/$unit.target"
done
printf '[Service]\nType=oneshot\nExecStart=true\n' >/run/units/probe.service
cp /usr/local/lib/systemd/system/errbusd.service /run/units
cp /usr/local/share/errbus/errbusd.conf /etc/errbus
# There is no journal of systemd here.
touch /run/errbusd.log
printf '[Service]\nStandardOutput=null\nStandardError=append:/run/errbusd.log\n' \
    >/run/units/errbusd.service.d/log.conf
systemd-sysusers /usr/local/lib/sysusers.d/errbus.conf
mount -t tmpfs -o mode=1777 tmpfs /tmp
mount -o remount,bind,ro /
# Among the namespaces below this one, as on any machine: credentials come to a unit by a mount.
mount --make-rshared /
exec env -i PATH=/usr/local/bin:/usr/bin:/bin container=test SYSTEMD_UNIT_PATH=/run/units \
    SYSTEMD_LOG_TARGET=console /lib/systemd/systemd --system --unit=start.target --show-status=no
END

# shellcheck disable=SC2016 # words of the inner shell
sh -c 'echo $$ >"$1/cgroup.procs" &&
    exec unshare --mount --pid --fork --kill-child --cgroup --uts --ipc --net --mount-proc \
        sh "$2/become" "$2"' sh "$cgroup" "$work" >"$work/systemd" 2>&1 &
launcher=$!
inside() {
    nsenter -t "$init" -m -u -i -n -p -C -- "$@"
}
# until_so SECONDS COMMAND...: false: it does not become so in this time
until_so() {
    looks=$(($1 * 10))
    shift
    until "$@" >/dev/null 2>&1; do
        looks=$((looks - 1))
        [ "$looks" -gt 0 ] || return 1
        sleep 0.1
    done
}
is_up() {
    kill -0 "$launcher" || return 0 # it is over
    init=$(cat "/proc/$launcher/task/$launcher/children")
    init=${init% }
    [ -n "$init" ] && inside systemctl is-system-running
}
can_start() {
    until_so 60 is_up && kill -0 "$launcher" && inside systemctl start probe
}
can_start >>"$work/log" 2>&1 || {
    tail -n 5 "$work/systemd"
    skip "no systemd of its own runs here"
}

# ---- what the broker is asked ----------------------------------------------------------------------
control() {
    inside systemctl "$@" >"$work/log" 2>&1
}
# of NAME: a property of the unit
of() {
    inside systemctl show errbusd --property "$1" --value
}
is_of() {
    [ "$(of "$1")" = "$2" ]
}
is_not_of() {
    [ "$(of "$1")" != "$2" ]
}
errbus() {
    inside env "${key:-X=}" timeout 60 /usr/local/bin/errbus "$@"
}
logged() {
    inside grep -q -e "$1" /run/errbusd.log
}
fail() {
    inside cat /run/errbusd.log >"$work/errbusd.log" 2>/dev/null || true
    inside systemctl status errbusd --no-pager >>"$work/errbusd.log" 2>&1 || true
    die "$@"
}
# drop_in TEXT: more of the unit, for the next start
drop_in() {
    printf '[Service]\n%b' "$1" | inside tee /run/units/errbusd.service.d/test.conf >/dev/null
    control daemon-reload || fail "the unit is not read again"
}
expect_kept() {
    got=$(errbus sub -p bob -C 1 -W 60 alice/a 2>"$work/log") || fail "the value is gone"
    [ "$got" = kept ] || fail "bob gets '$got'"
}

# ---- start -----------------------------------------------------------------------------------------
# A unit of Type=notify has started when it said so.
control start errbusd || fail "the unit does not start"
is_of ActiveState active || fail "it is not active"
is_of StatusText serving || fail "its status is '$(of StatusText)'"
is_of NotifyAccess main || fail "others may speak for it"
first=$(of MainPID)
[ "$(inside ps -o user= -p "$first")" = errbus ] || fail "it does not run as errbus"
[ -n "$(inside ls /var/lib/errbus/journal)" ] || fail "it has no journal in its state directory"
echo kept | errbus pub -p alice a >"$work/log" 2>&1 || fail "no value is published"
expect_kept

# ---- reload ----------------------------------------------------------------------------------------
# With an access file, a page, and the key of a credential.
inside mkdir -p /etc/credstore
errbus key new --file /etc/credstore/broker.key >"$work/log" 2>&1 || fail "no key is made"
public=$(errbus key show --file /etc/credstore/broker.key 2>"$work/log") || fail "the key is not read"
errbus key new --file /run/alice.key >"$work/log" 2>&1 || fail "no key is made"
alice=$(errbus key show --file /run/alice.key)
printf 'key alice %s\nallow alice party as alice bob in *\nallow alice tap status in *\n' "$alice" |
    inside tee /etc/errbus/access >/dev/null
{
    echo 'access = /etc/errbus/access'
    [ ! -x "$work/local/bin/errbus-web" ] || echo 'web = 127.0.0.1:7372'
} | inside tee -a /etc/errbus/errbusd.conf >/dev/null
control restart errbusd || fail "it does not start with an access file"
key=ERRBUS_KEY=/run/alice.key
ERRBUS_SERVER=tcp://$public@127.0.0.1:7370
export ERRBUS_SERVER
expect_kept
second=$(of MainPID)
[ "$second" != "$first" ] || fail "it was not started again"
is_of NRestarts 0 || fail "systemd started it again by itself"
page() {
    inside python3 - "$1" <<'END'
import sys
from urllib.request import urlopen

with urlopen("http://127.0.0.1:7372" + sys.argv[1], timeout=60) as answer:
    assert answer.status == 200 and answer.read()
END
}
if [ -x "$work/local/bin/errbus-web" ]; then # a build without libmicrohttpd has none
    until_so 60 page /readyz || fail "errbus web does not serve below the unit"
    page / || fail "errbus web has no page below the unit"
fi
printf 'group crew alice\n' | inside tee -a /etc/errbus/access >/dev/null
control reload errbusd || fail "it is not reloaded"
until_so 60 logged 'access: /etc/errbus/access is in force' || fail "it does not say that it read the access file again"
until_so 60 is_of StatusText serving || fail "its status is '$(of StatusText)' behind a reload"
is_of MainPID "$second" || fail "a reload starts it again"
expect_kept

# ---- it crashes, it hangs --------------------------------------------------------------------------
inside kill -KILL "$second"
until_so 60 is_not_of NRestarts 0 || fail "systemd does not start it again"
until_so 60 is_of ActiveState active || fail "it is not active behind a crash"
expect_kept
drop_in 'WatchdogSec=5s\n'
control restart errbusd || fail "it does not start again"
third=$(of MainPID)
before=$(of WatchdogTimestampMonotonic)
until_so 60 is_not_of WatchdogTimestampMonotonic "$before" || fail "it gives no sign of life"
inside kill -STOP "$third"
until_so 120 is_not_of MainPID "$third" || fail "a broker that hangs stays"
until_so 60 is_of ActiveState active || fail "it is not active behind a hang"
expect_kept

# ---- a replay that is longer than the time for a start ---------------------------------------------
i=0
while [ "$i" -lt 40 ]; do
    echo "$i"
    i=$((i + 1))
done | errbus pub -p alice more >"$work/log" 2>&1 || fail "no values are published"
control stop errbusd || fail "it does not stop"
cp "$build/tests/errbusd_failpoints" "$work/local/bin/errbusd_failpoints"
drop_in 'TimeoutStartSec=3s\nEnvironment=ERRBUS_SLOW=record:100\nExecStart=\nExecStart=errbusd_failpoints --config /etc/errbus/errbusd.conf\n'
began=$(date +%s)
control start errbusd || fail "a long replay is ended by the manager"
[ $(($(date +%s) - began)) -ge 4 ] || fail "the replay is too short to show anything"
expect_kept

# ---- what a start needs is away ---------------------------------------------------------------------
# It is tried again for as long as it takes.
control stop errbusd || fail "it does not stop"
inside sh -c 'cd /var/lib/errbus && mv journal away && touch file && ln -s file journal'
control start --no-block errbusd || fail "it is not started"
is_tried() {
    [ "$(of NRestarts)" -gt 10 ]
}
until_so 60 is_tried || fail "it is given up behind $(of NRestarts) restarts: '$(of ActiveState)'"
# In one step: a broker that is started meanwhile must not find nothing there, and make a journal.
inside sh -c 'cd /var/lib/errbus && ln -s away back && mv -T back journal'
until_so 60 is_of ActiveState active || fail "it does not start when it could: '$(of ActiveState)'"
expect_kept

# ---- the end ---------------------------------------------------------------------------------------
drop_in ''
control restart errbusd || fail "it does not start again"
control stop errbusd || fail "it does not stop"
is_of ActiveState inactive || fail "it is '$(of ActiveState)' when it was stopped"
is_of Result success || fail "its end is '$(of Result)'"
is_of ExecMainStatus 0 || fail "it ends with $(of ExecMainStatus)"
echo 'nonsense = 1' | inside tee -a /etc/errbus/errbusd.conf >/dev/null
! control start errbusd || fail "it starts with nonsense"
until_so 60 is_of ActiveState failed || fail "it is tried again with nonsense: '$(of ActiveState)'"
is_of ExecMainStatus 2 || fail "nonsense ends it with $(of ExecMainStatus)"
echo "a real systemd starts, reloads, watches, restarts and stops the broker"
