#!/bin/sh
# Builds the Python package for further interpreters and runs tests of its core with each.
#
#   tools/pythons.sh BUILD INTERPRETER[=NUMPY]...     INTERPRETER: a path; NUMPY: a version of NumPy, or the newest
#
# Only the extension is compiled: modules and library are those of BUILD.  Without arguments after BUILD, all interpreters
# from 3.9 on that pyenv or PATH have; those after 3.13 otherwise come from a newer Debian (tools/python_of_debian.sh).
#
# SPDX-License-Identifier: Apache-2.0
set -eu
source=$(cd "$(dirname "$0")/.." && pwd)
build=$(cd "$1" && pwd)
shift
: "${CC:=cc}" "${JOBS:=2}"
tests="test_ndarray.py test_ndarray_index.py test_autograd.py test_gluon_block.py test_np_array.py test_exchange.py test_package.py"

if [ $# = 0 ]; then
    for minor in 9 10 11 12 13 14 15; do
        found=""
        for python in "$HOME"/.pyenv/versions/3.$minor.*/bin/python $(command -v python3.$minor || true); do
            [ -x "$python" ] && { found=$python; break; }
        done
        [ -n "$found" ] || [ $minor -le 13 ] ||
            found=$(sh "$source/tools/python_of_debian.sh" 3.$minor "$build/pythons/debian-3.$minor") || true
        [ -z "$found" ] || set -- "$@" "$found"
    done
fi

wrong=""
for each in "$@"; do
    python=${each%%=*} numpy=numpy
    [ "$each" = "$python" ] || numpy=numpy==${each#*=}
    name=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    work=$build/pythons/$name
    mkdir -p "$work/mxnet" "$work/objects"
    PYTHON=$python sh "$source/tools/venv.sh" "$build/pythons/venv-$name-${numpy#numpy==}" "$numpy" pytest ||
        { echo "pythons: $name skipped: $numpy cannot be had"; continue; }
    include=$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')
    suffix=$("$python" -c 'import sysconfig; print(sysconfig.get_config_var("EXT_SUFFIX"))')
    (cd "$work/objects" && find "$source/python/core" -name '*.c' | xargs -P "$JOBS" -I FILE ${LAUNCHER:-} "$CC" -std=gnu11 -O1 -DNDEBUG -fPIC -fno-strict-aliasing \
        -fvisibility=hidden -Wall -Wextra -Werror -Wno-cast-function-type -Wno-missing-field-initializers -ftls-model=initial-exec \
        -I"$source/include" -I"$build/gen/include" -I"$source/src" -I"$source/python/core" -isystem "$include" -isystem "$include/.." -c FILE)
    (cd "$build/python/mxnet" && tar --exclude='*.so' --exclude=__pycache__ -cf - .) | tar -xf - -C "$work/mxnet"
    "$CC" -shared -o "$work/mxnet/_core$suffix" "$work"/objects/*.o "$build/lib/libgluon.a" -ljpeg -lpng -lz -lm -ldl -pthread \
        -Wl,-u,MXPredCreate,-u,MXPredForward,-u,MXNDListCreate -Wl,--version-script="$source/cmake/python.map"
    echo "== Python $name, $numpy"
    # shellcheck disable=SC2086
    (cd "$source/tests/python" && PYTHONPATH=$work "$build/pythons/venv-$name-${numpy#numpy==}/bin/python" -m pytest -q -p no:cacheprovider ${TESTS:-$tests}) || wrong="$wrong $name"
done
[ -z "$wrong" ] || { echo "pythons: tests fail with Python$wrong" >&2; exit 1; }
