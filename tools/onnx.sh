#!/bin/sh
# Runs the tests of ONNX files, HDF5 files, TensorBoard's event files and trackers against the other side: the onnx package, ONNX Runtime, h5py,
# TensorBoard, MLflow and Weights & Biases, in an environment of their own.
#
#   tools/onnx.sh BUILD [PYTEST OPTIONS]     --every: all networks of the zoo, not only a sample
#
# Where they cannot be installed (no network), it says so and succeeds.
#
# SPDX-License-Identifier: Apache-2.0
set -eu

build=$(cd "$1" && pwd)
shift
source=$(cd "$(dirname "$0")/.." && pwd)
sh "$source/tools/venv.sh" "$build/onnx" numpy pytest pytest-xdist onnx==1.23.2 onnxruntime==1.31.1 tensorboard h5py || {
    echo "onnx: onnx and onnxruntime cannot be had: their tests are skipped"
    exit 0
}
sh "$source/tools/venv.sh" "$build/onnx" mlflow-skinny wandb || echo "onnx: mlflow and wandb cannot be had: their tests are skipped"
cd "$source/tests/onnx"
PYTHONPATH="$build/python" timeout -k 10 "${ONNX_LIMIT:-900}" "$build/onnx/bin/python" -m pytest -p no:cacheprovider \
    -n "${JOBS:-2}" . ../python/test_tensorboard.py ../python/test_tracking.py "$@"
