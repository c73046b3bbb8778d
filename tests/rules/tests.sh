#!/bin/sh
# SPDX-License-Identifier: MPL-2.0
# Every test program has tests, every test states something.
set -eu
# shellcheck source=tests/rules/files.sh
. "$(dirname "$0")/files.sh"
over_sources tests.awk
