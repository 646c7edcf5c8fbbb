#!/bin/sh
# Builds and runs examples/cmake, the project of a user.
#
#   tests/packages/cmake.sh find PREFIX      with find_package(gluon), as installed below PREFIX
#   tests/packages/cmake.sh fetch            with FetchContent, from this source tree, without optimisation
#
# SPDX-License-Identifier: Apache-2.0
set -eu
source=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

case $1 in
    find) options="-DCMAKE_PREFIX_PATH=$2" ;;
    fetch) options="-DGLUON_SOURCE=$source -DGLUON_LEVELS=generic -DGLUON_MPI=OFF -DGLUON_CUDA=OFF -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS_DEBUG=-O0" ;;
    *) echo "cmake: find or fetch?" >&2; exit 2 ;;
esac
# shellcheck disable=SC2086
cmake -S "$source/examples/cmake" -B "$work" $options ${CMAKE_FLAGS:-} > "$work.log" && cmake --build "$work" -j "${JOBS:-2}" --target line >> "$work.log" ||
    { tail -20 "$work.log"; echo "cmake: $* does not build" >&2; exit 1; }
rm -f "$work.log"
"$work/line" || { echo "cmake: the program of $* fails" >&2; exit 1; }
