#!/bin/sh
# Builds with what the machine has and runs the tests on gpu(0); needs nvcc, cuDNN, NumPy and pytest, no network.
#
#     test_gpu.sh BUILD             operator samples, layers, losses, optimizers and examples compared with the CPU, then the
#                                   Python suite with gpu(0) as the default context, then C
#                                   (GPU_TESTS: options for pytest)
#     test_gpu.sh BUILD sanitize    the samples under compute-sanitizer: memcheck, then racecheck
#                                   (GLUON_SAMPLES: a regular expression for the operators; GPU_JOBS: processes at a time)
#     test_gpu.sh BUILD bench       the comparisons of bench/gpu, which then fill the tables of docs/gpu.md
#                                   (GPU_BENCH_SECONDS: of each measurement)
#
# Without a GPU it prints a message and succeeds.
#
# SPDX-License-Identifier: Apache-2.0
set -eu
build=$1
mode=${2:-all}

if ! nvidia-smi -L >/dev/null 2>&1; then
    echo "test-gpu: there is no GPU on this machine, nothing was run"
    exit 0
fi

cmake -S . -B "$build" -DGLUON_CUDA=ON -DGLUON_PYTHON=ON -DGLUON_TESTS=OFF -DGLUON_BENCH=OFF ${CMAKE_FLAGS:-}
cmake --build "$build" -j "$(nproc)"
PYTHONPATH=$(cd "$build" && pwd)/python
export PYTHONPATH

if [ "$mode" = bench ]; then
    log=$build/bench.log seconds=--seconds=${GPU_BENCH_SECONDS:-1}
    peers=$(python3 -c 'import torch; print("--peers")' 2>/dev/null || true)
    {
        python3 bench/gpu/steps.py "$seconds"
        python3 bench/gpu/predict.py "$seconds" $peers
        python3 bench/gpu/models.py "$seconds" $peers
    } | tee "$log"
    python3 bench/gpu/tables.py docs/gpu.md "$log"
    exit 0
fi
export GLUON_CUDA_TF32=0

# Options may deselect every test of a folder: pytest then exits with status 5.
tests() {
    python3 -m pytest "$@" ${GPU_TESTS:-} || [ $? = 5 ]
}

# One part of the samples: sanitized TOOL PART.  Each has its own process and log.
sanitized='
    log=$LOGS/$0.${1%/*}
    GLUON_SAMPLES_PART=$1 compute-sanitizer --tool $0 --error-exitcode 3 --target-processes all \
        --kernel-regex-exclude kns=cudnn python3 -m pytest -q -p no:cacheprovider tests/python/test_gpu_samples.py >"$log" 2>&1
    status=$?
    grep -E "ERROR SUMMARY|RACECHECK SUMMARY| passed| failed| skipped" "$log" | sed "s|^|$0 $1: |"
    [ $status = 0 ] || [ $status = 5 ] || { tail -n 200 "$log"; exit 1; }'

if [ "$mode" = sanitize ]; then
    GLUON_SAMPLES_TYPES=${GLUON_SAMPLES_TYPES:-float32}
    LOGS=$(mktemp -d)
    export GLUON_SAMPLES_TYPES LOGS
    trap 'rm -rf "$LOGS"' EXIT
    jobs=${GPU_JOBS:-4}
    for tool in memcheck racecheck; do
        seq 0 $((jobs - 1)) | xargs -P "$jobs" -I{} sh -c "$sanitized" "$tool" "{}/$jobs"
    done
    exit 0
fi

tests tests/python/test_gpu*.py
MXNET_TEST_DEFAULT_CTX="gpu(0)" tests tests/python --ignore-glob="*/test_gpu*.py"
sh tests/gpu_examples.sh "$build/examples"
