#!/bin/sh
# SPDX-License-Identifier: MPL-2.0
# usage: switches.sh ROOT
# In the broker and the library no switch over messages, facts, codes, effects, states or kinds of
# ours has a default: a new one must not be decided by it. Such a switch has a case for each (of
# messages: for each of one direction), or asks the table.
set -eu
# shellcheck source=tests/rules/files.sh
. "$(dirname "$0")/files.sh"
files=$(some '^(broker|libbus)/')
# shellcheck disable=SC2086 # several words
awk -f "$rules/source.awk" -f "$rules/switches.awk" $files
