#!/bin/sh
# Builds the Python package for further interpreters and runs tests of its core with each.
#
#   tools/pythons.sh BUILD INTERPRETER[=NUMPY]...     INTERPRETER: a path; NUMPY: a version of NumPy, or the newest
#
# Only the extension is compiled: modules and library are those of BUILD.  Without arguments after BUILD, all interpreters
# from 3.9 on that pyenv or PATH have, the oldest with the oldest NumPy, too; those after 3.13 otherwise come from a newer
# Debian (tools/python_of_debian.sh).  A free-threaded one (3.14t or 3.13t) is built from source if there is none
# (tools/python_freethreaded.sh).
#
# SPDX-License-Identifier: Apache-2.0
set -eu
source=$(cd "$(dirname "$0")/.." && pwd)
build=$(cd "$1" && pwd)
shift
: "${CC:=cc}" "${JOBS:=2}"
export PIP_ONLY_BINARY=numpy # the newest that this Python has a wheel of: building one takes longer than the tests
tests="test_ndarray.py test_ndarray_index.py test_autograd.py test_gluon_block.py test_np_array.py test_exchange.py test_package.py"

if [ $# = 0 ]; then
    free=""
    for minor in 9 10 11 12 13 14 15; do
        found=""
        for python in "$HOME"/.pyenv/versions/3.$minor.*/bin/python $(command -v python3.$minor || true); do
            [ -x "$python" ] && { found=$python; break; }
        done
        [ -n "$found" ] || [ $minor -le 13 ] ||
            found=$(sh "$source/tools/python_of_debian.sh" 3.$minor "$build/pythons/debian-3.$minor") || true
        [ $minor != 9 ] || [ -z "$found" ] || set -- "$@" "$found=1.22.0"
        [ -z "$found" ] || set -- "$@" "$found"
        for python in "$HOME"/.pyenv/versions/3.$minor.*t/bin/python3.${minor}t $(command -v python3.${minor}t || true); do
            [ ! -x "$python" ] || free=$python
        done
    done
    [ -n "$free" ] || free=$(JOBS=$JOBS sh "$source/tools/python_freethreaded.sh" 3.13 "$build/pythons/free-3.13") ||
        echo "pythons: free-threaded Python skipped: none is installed, and it cannot be built"
    [ -z "$free" ] || set -- "$@" "$free"
fi

wrong=""
for each in "$@"; do
    python=${each%%=*} numpy=numpy
    [ "$each" = "$python" ] || numpy=numpy==${each#*=}
    name=$("$python" -c 'import sys, sysconfig
print("%d.%d" % sys.version_info[:2] + "t" * bool(sysconfig.get_config_var("Py_GIL_DISABLED")))')
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
