#!/bin/sh
# SPDX-License-Identifier: MPL-2.0
# random.sh -- breaks the bus where nobody chose to, and sees whether a near test notices.
#
#   random.sh SEED COUNT [--build DIR] [--under PATH] [--results FILE]
#
# Makes COUNT mutants of broker/ and libbus/ under SEED.  Each changes one place of one function: a
# comparison, a constant, an operator, a condition, a return value, or it drops a statement or swaps
# branches.  A file is drawn by its lines, then a function of it, then a kind of change, then a place.
# PATH: only files below it.  DIR: a build folder of Ninja's, up to date (default build/dev).  Nothing
# in it is changed: the mutant is compiled beside it and linked before what is whole.
#
# Not counted: a mutant that does not compile, and one that gives the same object code with -O2.
# The test programs run in the order of their nearness, each bounded in time, and the first one that
# fails on it, but passes on the bus as it is, ends it: the unit tests that include the file's header,
# the rest of its module's, the corpus, the simulation with MUTATION_SEEDS seeds (default 300), and for
# what the simulation does not run, some system tests.  A test that does not end has noticed it, too.
#
# Prints a line for each mutant, and the survivors once more with file:line, old and new text.  FILE
# gets one line of JSON for each.  The same arguments and sources give the same mutants.  Exit codes:
# 0 none survived, 1 some did, 2 a mutant could not be tried,
# 77 skipped: no Ninja or python3 here.
set -eu

[ $# -ge 2 ] || {
    sed -n 's/^#   //p' "$0" >&2
    exit 2
}
root=$(cd "$(dirname "$0")/../.." && pwd)
command -v python3 >/dev/null && command -v ninja >/dev/null || {
    echo "skipped: it needs python3 and ninja"
    exit 77
}
exec env PYTHONDONTWRITEBYTECODE=1 python3 "$root/tests/mutation/try_mutants.py" "$root" "$@"
