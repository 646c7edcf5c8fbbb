#!/bin/sh
# Builds with what the machine has and runs the tests on gpu(0); needs nvcc, cuDNN, NumPy and pytest, no network.
#
#     test_gpu.sh BUILD             operator samples, layers, losses, optimizers and examples beside the CPU, then the
#                                   Python suite with gpu(0) as the default context, then C
#                                   (GPU_TESTS: options for pytest)
#     test_gpu.sh BUILD sanitize    the samples under compute-sanitizer: memcheck, then racecheck
#                                   (GLUON_SAMPLES: a regular expression for the operators)
#
# Where there is no GPU it says so and succeeds.
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
export PYTHONPATH GLUON_CUDA_TF32=0

if [ "$mode" = sanitize ]; then
    export GLUON_SAMPLES_TYPES="${GLUON_SAMPLES_TYPES:-float32}"
    for tool in memcheck racecheck; do
        compute-sanitizer --tool $tool --error-exitcode 3 --target-processes all --kernel-regex-exclude kns=cudnn \
            python3 -m pytest -q -p no:cacheprovider tests/python/test_gpu_samples.py
    done
    exit 0
fi

python3 -m pytest tests/python/test_gpu*.py
MXNET_TEST_DEFAULT_CTX="gpu(0)" python3 -m pytest tests/python --ignore-glob="*/test_gpu*.py" ${GPU_TESTS:-}
sh tests/gpu_examples.sh "$build/examples"
