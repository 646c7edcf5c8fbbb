#!/bin/sh
# Reads what both exporters of PyTorch write, and compares networks of published names with torch's own of the same weights, in an
# environment with PyTorch.
#
#   tools/torch.sh BUILD [PYTEST OPTIONS]
#
# Where it cannot be installed (no network), it says so and succeeds.
#
# SPDX-License-Identifier: Apache-2.0
set -eu

build=$(cd "$1" && pwd)
shift
source=$(cd "$(dirname "$0")/.." && pwd)
sh "$source/tools/venv.sh" "$build/torch" numpy pytest pytest-xdist torch onnx onnxscript || {
    echo "torch: PyTorch cannot be had: its tests are skipped"
    exit 0
}
cd "$source/tests/onnx"
PYTHONPATH="$build/python" timeout -k 10 900 "$build/torch/bin/python" -m pytest -p no:cacheprovider -n "${JOBS:-2}" \
    test_torch.py ../python/test_torch_weights.py "$@"
