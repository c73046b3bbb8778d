# SPDX-License-Identifier: MPL-2.0
# shellcheck shell=sh
# broker.sh -- sourced by the tests: a broker of their own on free ports, which ends with the test.
set -eu
work=${AUTOPKGTEST_TMP:-$(mktemp -d)}
errbusd --control 'tcp://127.0.0.1:*' --data 'tcp://127.0.0.1:*' --journal "$work/journal" \
    >"$work/ready" 2>"$work/log" &
broker=$!
end() {
    kill "$broker" 2>/dev/null || true
    wait "$broker" 2>/dev/null || true
    [ -n "${AUTOPKGTEST_TMP-}" ] || rm -rf "$work"
}
trap end EXIT
until grep -q '^errbusd ready' "$work/ready"; do
    kill -0 "$broker" || {
        cat "$work/log" >&2
        exit 1
    }
    sleep 0.05
done
ERRBUS_SERVER=$(sed -n 's/^errbusd ready control=\([^ ]*\) .*/\1/p' "$work/ready")
export ERRBUS_SERVER
