#!/bin/sh
# SPDX-License-Identifier: MPL-2.0
# Direction of includes, pure folders, one-door headers: includes.table, pure.table, doors.table.
set -eu
# shellcheck source=tests/rules/files.sh
. "$(dirname "$0")/files.sh"
over_sources includes.awk -v rules="$rules"
