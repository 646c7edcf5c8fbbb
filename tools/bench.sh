#!/bin/sh
# Runs the benchmarks in the folder given, one after the other: they measure the machine, so nothing else should run.
#
# SPDX-License-Identifier: Apache-2.0
set -eu
for program in "$1"/bench_*; do
    [ -x "$program" ] && [ -f "$program" ] || continue
    printf '\n== %s\n' "$(basename "$program")"
    "$program"
done
