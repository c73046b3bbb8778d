#!/bin/sh
# SPDX-License-Identifier: MPL-2.0
# Banned calls and words, the licence line, the width.
set -eu
# shellcheck source=tests/rules/files.sh
. "$(dirname "$0")/files.sh"
over_sources banned.awk
