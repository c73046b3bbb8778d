#!/bin/sh
# SPDX-License-Identifier: MPL-2.0
# usage: programs.sh ROOT
# Each program of tests/bench, install, race, sim and system has a row in tests/README.md, which
# begins with its path there.  That a row's file is there is a rule of prose.sh.
set -eu
cd "$1"/tests
status=0
count=0
for program in bench/*_test.c install/*.sh race/*_race.c race/live/*_race.c sim/*_test.c system/*_test.c; do
    case $program in
    *'*'* | install/processes.sh) continue ;;
    esac
    count=$((count + 1))
    grep -qsF "| \`$program\` | " README.md ||
        { echo "tests/README.md: no row for $program"; status=1; }
done
[ "$count" -gt 0 ] || { echo "tests: no program was found"; exit 1; }
exit $status
