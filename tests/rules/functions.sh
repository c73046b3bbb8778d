#!/bin/sh
# SPDX-License-Identifier: MPL-2.0
# Length of functions, and no #if inside one. Waivers: functions.waivers, with reasons.
set -eu
# shellcheck source=tests/rules/files.sh
. "$(dirname "$0")/files.sh"
over_sources functions.awk -v waivers=tests/rules/functions.waivers
