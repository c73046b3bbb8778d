#!/bin/sh
# SPDX-License-Identifier: MPL-2.0
# The documents and man pages: the paths, links, functions, limits and tests that they name, words
# that are not used any more (prose.words), and how many long sentences and wide lines each may have
# (prose.table).  In the sources: the files and headings that comments cite, and the same words.
set -eu
# shellcheck source=tests/rules/files.sh
. "$(dirname "$0")/files.sh"

# All files of the tree but what is built.
tree() {
    find . \( -path ./.git -o -path ./build \) -prune -o -type f -print | cut -c3-
}

# The table of the tree that is looked at; a tree without one allows nothing.
table=tests/rules/prose.table
[ -f "$table" ] || table=/dev/null

documents=$(tree | grep -E '\.md$|^(broker|clients|libbus)/.*\.[1-9]$' | LC_ALL=C sort)
# What a document may name.  A function is whatever the sources call or define; those of the tests
# are told apart.
# shellcheck disable=SC2046
names() {
    tree | sed 's/^/file /'
    grep -oE '[a-z_][a-z0-9_]*\(' $(sources) /dev/null | LC_ALL=C sort -u |
        sed -n 's/^\(tests\/\)[^:]*:\(.*\)($/function \2 \1/p; t; s/^[^:]*:\(.*\)($/function \1/p'
    grep -hoE '(LIMIT|DEFAULT|STEP|COST)_[A-Z0-9_]+' $(sources) | LC_ALL=C sort -u | sed 's/^/limit /'
    grep -hE '^Test\(' $(sources) | sed -n 's/^Test(\([a-z0-9_]*\), *\([A-Za-z0-9_]*\).*/test \1 \2/p'
}

# shellcheck disable=SC2046,SC2086
names | awk -f "${rules:?}/prose.awk" part=files - part=words "$rules/prose.words" \
    part=counts "$table" part=prose $documents \
    part=sources $(sources) $(find schemas -name '*.def' 2>/dev/null)
