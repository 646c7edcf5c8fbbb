#!/bin/sh
# Compares networks of keras.applications with ours of the same weights, in an environment with Keras and JAX.
#
#   tools/keras.sh BUILD [PYTEST OPTIONS]
#
# Where they cannot be installed (no network), it says so and succeeds.
#
# SPDX-License-Identifier: Apache-2.0
set -eu

build=$(cd "$1" && pwd)
shift
source=$(cd "$(dirname "$0")/.." && pwd)
sh "$source/tools/venv.sh" "$build/keras" numpy pytest pytest-xdist keras h5py jax || {
    echo "keras: Keras and JAX cannot be had: their tests are skipped"
    exit 0
}
cd "$source/tests/onnx"
PYTHONPATH="$build/python" timeout -k 10 900 "$build/keras/bin/python" -m pytest -p no:cacheprovider -n "${JOBS:-2}" \
    test_keras.py test_hdf5.py "$@"
