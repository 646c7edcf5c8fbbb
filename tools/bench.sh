#!/bin/sh
# Runs the benchmarks in the build folder given, one after the other: they measure the machine, so nothing else should
# run.
#
#   PEERS="mxnet torch jax onnxruntime openvino" tools/bench.sh build
#
# First the C programs, then the Python package compared with NumPy and with the given peers.  Each peer has its own
# environment, build/peers/NAME, created at the first run; one that cannot be installed is reported and skipped.
# AVX2=1: the Python part alone, in which nobody finds AVX-512.
#
# SPDX-License-Identifier: Apache-2.0
set -eu
build=$1
tools=$(dirname "$0")
side=$tools/../bench/side

for program in "$build"/bench/bench_*; do
    [ -z "${AVX2:-}" ] && [ -x "$program" ] && [ -f "$program" ] || continue
    printf '\n== %s\n' "$(basename "$program")"
    "$program"
done

# Creates the environment of a peer; prints its interpreter, or says why there is none.
environment() {
    folder=$build/peers/$1
    case $1 in
    # MXNet's last release needs an old NumPy, and a Python that has it; the differential tests use the same one.
    mxnet) folder=$build/oracle
        PYTHON=${ORACLE_PYTHON:-python3.11} sh "$tools/venv.sh" "$folder" mxnet==1.9.1 numpy==1.23.5 >&2 ;;
    # The CPU build is 200 MB; the one on PyPI includes 5 GB of CUDA and is used only as a fallback.
    torch) PIP_INDEX_URL=https://download.pytorch.org/whl/cpu sh "$tools/venv.sh" "$folder" torch torchvision 2>/dev/null >&2 ||
        sh "$tools/venv.sh" "$folder" torch torchvision numpy >&2 ;;
    jax) sh "$tools/venv.sh" "$folder" jax numpy >&2 ;;
    onnxruntime) sh "$tools/venv.sh" "$folder" onnxruntime onnx numpy >&2 ;;
    openvino) sh "$tools/venv.sh" "$folder" openvino onnx numpy >&2 ;;
    *) echo "bench: unknown peer $1; there are mxnet torch jax onnxruntime openvino" >&2; return 1 ;;
    esac && echo "$folder/bin/python"
}

ours=$build/venv/bin/python
if [ ! -x "$ours" ] || [ ! -d "$build/python/mxnet" ]; then
    echo "bench: the Python package is not built (make python): its part is skipped"
    exit 0
fi
set --
for peer in ${PEERS:-}; do
    if python=$(environment "$peer"); then
        set -- "$@" --peer "$peer=$python"
    else
        echo "bench: $peer cannot be installed here; it is skipped"
    fi
done
out=$build/bench/side
if [ -n "${AVX2:-}" ]; then
    out=$out-avx2
    set -- "$@" --avx2
else
    printf '\n== overhead of Python\n'
    "$ours" "$side/overhead.py" --path "$build/python" --lenet "$build/bench/bench_lenet"
fi
printf '\n== side by side\n'
"$ours" "$side/run.py" --peer "gluon=$ours" --path "gluon=$build/python" --peer "numpy=$ours" "$@" \
    --out "$out"
