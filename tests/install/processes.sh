# SPDX-License-Identifier: MPL-2.0
# shellcheck shell=sh
# processes.sh -- sourced by the tests that start processes.

# stop PID...: asks these processes to end, and waits until they have.
stop() {
    for pid; do
        kill "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
    done
}
