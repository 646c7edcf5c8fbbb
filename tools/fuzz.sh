#!/bin/sh
# Runs every fuzzer of BUILD for SECONDS; a crash is printed with the input that caused it.
#
#   tools/fuzz.sh BUILD SECONDS
#
# Found inputs are kept in BUILD/corpus and used again by the next run.
#
# SPDX-License-Identifier: Apache-2.0
set -eu
build=$(cd "$1" && pwd)
seconds=$2
source=$(cd "$(dirname "$0")/.." && pwd)
export ASAN_OPTIONS=allocator_may_return_null=1:detect_leaks=1 GLUON_ALLOC_CACHE=0
mkdir -p "$build/corpus" "$build/crashes"
"$build/tests/fuzz_seeds" "$build/corpus"
failed=""
for program in "$build"/tests/fuzz_*; do
    name=$(basename "$program" | sed 's/^fuzz_//')
    case $name in seeds|*.*) continue ;; esac
    set -- "$build/corpus/$name"
    if [ -d "$source/tests/fuzz/regress/$name" ]; then set -- "$@" "$source/tests/fuzz/regress/$name"; fi
    mkdir -p "$build/corpus/$name"
    "$program" -max_total_time="$seconds" -max_len=4096 -timeout=20 -rss_limit_mb=2000 -print_final_stats=1 -verbosity=0 \
        -artifact_prefix="$build/crashes/$name-" "$@" > "$build/$name.log" 2>&1 || { failed="$failed $name"; tail -40 "$build/$name.log"; }
    echo "fuzz: $name: $(sed -n 's/stat::number_of_executed_units: *//p' "$build/$name.log") executions"
done
if [ -n "$failed" ]; then
    echo "fuzz: failed:$failed (inputs in $build/crashes)"
    exit 1
fi
