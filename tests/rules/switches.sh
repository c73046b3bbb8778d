#!/bin/sh
# SPDX-License-Identifier: MPL-2.0
# usage: switches.sh ROOT
# In the broker and the library no switch over messages has a default: a new message must not be
# decided by one. Such a switch has a case for each message of one direction, or asks msg_kind().
set -eu
# shellcheck source=tests/rules/files.sh
. "$(dirname "$0")/files.sh"
files=$(some '^(broker|libbus)/')
# shellcheck disable=SC2086 # several words
awk -f "$rules/source.awk" -f "$rules/switches.awk" $files
