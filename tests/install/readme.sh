#!/bin/bash
# SPDX-License-Identifier: MPL-2.0
# usage: readme.sh SOURCE ERRBUSD ERRBUS
# What README.md shows of a broker that is killed works as printed: its commands are run, one after the
# other, in a home of their own, and print what stands there, but for times and numbers of events. Only
# the endpoints are others, so that nobody else is met.
set -eu
source=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

die() {
    echo "readme: $*" >&2
    cat "$work/errors" "$work/home/errbusd.log" >&2 || true
    exit 1
}

# times: what differs each time.
times() {
    sed -E 's/^ *[0-9]+ [0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]{8}\.[0-9]{3} /EVENT TIME /'
}

mkdir "$work/bin" "$work/home"
: >"$work/errors"
ln -s "$3" "$work/bin/errbus"
cat >"$work/bin/errbusd" <<END
#!/bin/sh
exec "$2" --control "ipc://$work/control" --data "ipc://$work/data" "\$@"
END
chmod +x "$work/bin/errbusd"

awk '/^## / { here = $0 == "## When the broker is killed" }
     /^```/ { inside = here && $0 == "```console"; next }
     inside' "$source/README.md" >"$work/shown"
grep -v '^\$ ' "$work/shown" | times >"$work/expected"
{
    echo "trap 'kill \$(jobs -p) 2>/dev/null; wait' EXIT"
    sed -n 's/^\$ //p' "$work/shown"
} >"$work/script"
[ "$(grep -c '^errb' "$work/script")" -ge 5 ] || die "README.md does not show it"

cd "$work/home"
unset STATE_DIRECTORY XDG_STATE_HOME ERRBUS_JOB ERRBUS_PARTY
export HOME="$work/home" PATH="$work/bin:$PATH" ERRBUS_SERVER="ipc://$work/control"
timeout 60 bash "$work/script" >"$work/output" 2>"$work/errors" </dev/null || die "a command failed"
times <"$work/output" | diff "$work/expected" - || die "other than printed"
[ -d "$HOME/.local/state/errbus/journal" ] || die "the journal is not where README.md says"
echo "the commands of README.md print what it shows"
