# shellcheck shell=bash
# SPDX-License-Identifier: MPL-2.0
#
# stage.sh -- what the demonstrations share: processes whose lines are shown with a name before
# them, and which end with the demonstration. A script that reads this has its own name in $title.

work=$(mktemp -d)
pids=()
pipes=()
started=0

die() {
    echo "$title: $*" >&2
    exit 1
}

# end_process PID PIPE: asks it to end, if it still runs, and ends it if it has not done so in five
# seconds. All that it said is shown then.
end_process() {
    local status=0
    kill -TERM "$1" 2>/dev/null || true
    read -r -t 5 -u "$2" || status=$?
    # 1: it has ended, and its lines are shown; above 128: the time is over
    ((status <= 128)) || kill -KILL "$1" 2>/dev/null || true
    wait "$1" 2>/dev/null || true
}

end_all() {
    local i
    for ((i = ${#pids[@]} - 1; i >= 0; i--)); do
        end_process "${pids[i]}" "${pipes[i]}"
    done
    rm -rf "$work"
}
trap end_all EXIT

# start NAME COMMAND...: in the background, its lines with its name before them, and in $work/NAME.
# Its process id is in $started. It alone can write to a pipe of its own, so that it ends with it.
start() {
    local name=$1 open pipe
    shift
    : >"$work/$name"
    mkfifo "$work/$name.pipe"
    exec {open}<>"$work/$name.pipe" {pipe}<"$work/$name.pipe"
    "$@" > >(tee -a "$work/$name" | sed -u "s/^/$(printf '%-10s' "$name") | /") 2>&1 &
    started=$!
    exec {open}>&-
    pids+=("$started")
    pipes+=("$pipe")
}

# wait_for WHAT SECONDS COUNT PATTERN NAME: until NAME has printed so many lines that match, which
# are then in $lines.
wait_for() {
    lines=$(timeout "$2" tail -n +1 -f "$work/$5" | grep -E -m "$3" "$4") || die "$1 did not come"
    [ "$(wc -l <<<"$lines")" -eq "$3" ] || die "$1 did not come $3 times"
}
