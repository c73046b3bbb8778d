#!/bin/sh
# SPDX-License-Identifier: MPL-2.0
# Layout is clang-format's; skipped by name where there is none.
set -eu
# shellcheck source=tests/rules/files.sh
. "$(dirname "$0")/files.sh"
if ! command -v clang-format >/dev/null; then
    echo "skipped: no clang-format here"
    exit 77
fi
# shellcheck disable=SC2046
set -- $(sources)
clang-format --dry-run -Werror --ferror-limit=3 "$@"
