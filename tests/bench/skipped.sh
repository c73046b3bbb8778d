#!/bin/sh
# SPDX-License-Identifier: MPL-2.0
#
# usage: tests/bench/skipped.sh LATENCY_BENCH
# A peer whose server is not installed is skipped by name, and the others are measured.

set -eu
said=$(PATH=/nowhere "$1" --quick --systems redis,raw)
echo "$said" | grep -qF 'redis: skipped, its server is not installed (Debian: redis-server libhiredis-dev)' &&
    echo "$said" | grep -q 'p99  *raw ' && exit 0
echo "$said" >&2
exit 1
