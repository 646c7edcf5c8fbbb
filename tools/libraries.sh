#!/bin/sh
# Runs published libraries on this package, in an environment of their own.
#
#   tools/libraries.sh BUILD [PYTEST OPTIONS]     --every: all models of the registries (hours), not only a sample
#
# The libraries are those of PyPI, unchanged, with the NumPy of today.  Their pins on old versions of NumPy and on the
# package mxnet, which this one replaces, are left out: they are installed without dependencies, and these by name.
# Where they cannot be installed (no network), it says so and succeeds.
#
# SPDX-License-Identifier: Apache-2.0
set -eu

build=$(cd "$1" && pwd)
shift
folder=$build/libraries
source=$(cd "$(dirname "$0")/.." && pwd)
libraries="gluoncv==0.10.5 gluoncv2==0.0.64 gluonnlp==0.10.0 gluonts==0.13.7 d2lzh==1.0.0 d2l==0.17.6"
newer=gluonts==0.17.0

skip() {
    echo "libraries: $1: the tests of published libraries are skipped"
    exit 0
}
install() { "$folder/bin/python" -m pip install -q --disable-pip-version-check --retries 2 --timeout 60 "$@"; }

# What the libraries need, without what they pin.
sh "$source/tools/venv.sh" "$folder" numpy pytest pytest-xdist matplotlib pandas scipy tqdm requests pillow portalocker \
    pyyaml "pydantic<2" toolz yacs autocfg opencv-python-headless "ipython<8" cython setuptools wheel ||
    skip "PyPI cannot be reached"

if [ "$(cat "$folder/.libraries" 2>/dev/null)" != "$libraries $newer" ]; then
    echo "libraries: installing $libraries $newer"
    # shellcheck disable=SC2086
    install --no-deps $libraries || skip "the libraries cannot be installed"
    install --no-deps --target "$folder/newer" $newer || skip "$newer cannot be installed"
    echo "$libraries $newer" > "$folder/.libraries"
fi

export MXNET_NUMPY_ALIASES=1 PYTHONPATH="$build/python" PYTHONWARNINGS=ignore MPLBACKEND=Agg
run() { timeout -k 10 "${LIBRARIES_LIMIT:-3000}" "$folder/bin/python" -m pytest -p no:cacheprovider "$@"; }
cd "$source/tests/libraries"
run -n "${JOBS:-2}" . "$@"
# The newer GluonTS beside the older one: the same tests, another version first on the path.
PYTHONPATH="$folder/newer:$PYTHONPATH" run test_gluonts.py
