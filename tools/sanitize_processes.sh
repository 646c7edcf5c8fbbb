#!/bin/sh
# Several processes under the sanitizers: sanitize_processes.sh FOLDER...  Each folder is a configured build of one of them.
#
# MPI itself is not instrumented: the thread sanitizer ignores what it does.  Leaks are not looked for: MPI has many of its own, from
# plugins that are no longer there when they are reported.  `make sanitize` finds ours.
#
# SPDX-License-Identifier: Apache-2.0
set -eu
if ! command -v mpirun >/dev/null; then
    echo "distributed-sanitize: mpirun is not installed (Debian package openmpi-bin), nothing was run"
    exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 MXNET_CPU_WORKER_NTHREADS=2 GLUON_BUCKET_KB=64
export TSAN_OPTIONS="halt_on_error=1 exitcode=66 ignore_noninstrumented_modules=1"
export ASAN_OPTIONS="exitcode=66:detect_leaks=0"

# run PROCESSES PROGRAM ...: its exit status, the end of its output if a sanitizer found something.
run() {
    n=$1
    shift
    status=0
    timeout 600 mpirun --oversubscribe --bind-to none -np "$n" "$@" >"$work/log" 2>&1 || status=$?
    if grep -E -q "Sanitizer: |runtime error:" "$work/log"; then
        tail -n 100 "$work/log"
        exit 1
    fi
    return $status
}

for build; do
    cmake --build "$build" -j "${JOBS:-$(nproc)}" --target test_gluon_several_processes gluon_mpi
    program=$build/tests/test_gluon_several_processes
    run 2 "$program" --inner cpu || { tail -n 100 "$work/log"; exit 1; }
    (export GLUON_COMM_CHECK=1 && run 2 "$program" --inner cpu) || { tail -n 100 "$work/log"; exit 1; }
    if run 2 "$program" --fail cpu; then
        echo "a process failed, and nobody noticed" && exit 1
    fi
    grep -q "rank 0: rank 1 failed: rank 1 has had enough" "$work/log" || { tail -n 100 "$work/log"; exit 1; }
    echo "$build: nothing found"
done
