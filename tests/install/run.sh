#!/bin/sh
# Installs a build into a fresh prefix and uses it from outside: pkg-config, CMake, every header by itself, the
# symbols and the size of the library.
#
#   tests/install/run.sh BUILD_DIRECTORY
#
# SPDX-License-Identifier: Apache-2.0
set -eu
build=$1
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix
strict="-std=c11 -pedantic -Wall -Wextra -Werror"
: "${CC:=cc}"

fail() { echo "install: $*" >&2; exit 1; }

cmake --install "$build" --prefix "$prefix" >"$work/log" || { cat "$work/log"; fail "cmake --install"; }
library=$(find "$prefix" -name 'libgluon.so.*.*.*')
folder=$(dirname "$library")

# Every public header compiles alone, and says so with no more than the standard.
for header in "$prefix"/include/gluon.h "$prefix"/include/gluon/*.h "$prefix"/include/mxnet/*.h; do
    name=${header#"$prefix/include/"}
    echo "#include <$name>" | "$CC" $strict -I"$prefix/include" -x c -fsyntax-only - || fail "<$name> does not compile alone"
done

# pkg-config, shared and static.
if command -v pkg-config >/dev/null; then
    export PKG_CONFIG_PATH="$folder/pkgconfig"
    "$CC" $strict $(pkg-config --cflags gluon) "$here/outside.c" $(pkg-config --libs gluon) -o "$work/shared"
    LD_LIBRARY_PATH=$folder "$work/shared"
    "$CC" $strict $(pkg-config --cflags gluon) "$here/outside.c" "$folder/libgluon.a" \
        $(pkg-config --static --libs-only-l gluon | sed 's/-lgluon//') -pthread -o "$work/static"
    "$work/static"
else
    echo "install: pkg-config is not there, gluon.pc was not tried"
fi

# A program written for MXNet's C interface for prediction, in C and in C++, which sees nothing of ours.
"$CC" $strict -I"$prefix/include" "$here/old_predict.c" -L"$folder" -lgluon -o "$work/old"
LD_LIBRARY_PATH=$folder "$work/old"
if command -v c++ >/dev/null; then
    c++ -std=c++11 -Wall -Wextra -Werror -x c++ -I"$prefix/include" "$here/old_predict.c" -L"$folder" -lgluon -o "$work/old++"
    LD_LIBRARY_PATH=$folder "$work/old++"
fi

# find_package(gluon).
cmake -S "$here" -B "$work/outside" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$CC" >"$work/log" &&
    cmake --build "$work/outside" >>"$work/log" 2>&1 || { cat "$work/log"; fail "find_package(gluon)"; }
"$work/outside/outside_gluon"
"$work/outside/outside_gluon_static"

# The library: its name, its symbols, its size.
readelf -d "$library" | grep -q 'SONAME.*libgluon\.so\.0\]' || fail "SONAME is not libgluon.so.0"
foreign=$(nm -D --defined-only "$library" | awk '$NF !~ /^(mx_|MX_|MX(Pred|ND|Get))/ {print $NF}')
[ -z "$foreign" ] || fail "exported symbols without mx_ or MX_: $foreign"
# (Kernels may carry their level instead of the prefix.)
foreign=$(nm -g --defined-only "$folder/libgluon.a" | awk 'NF == 3 && $3 !~ /^(mx_|MX_|MX(Pred|ND|Get))/ && $3 !~ /_(generic|neon|armv82|armv86|avx2|avx512)$/ {print $3}')
[ -z "$foreign" ] || fail "global symbols in libgluon.a without mx_ or MX_: $foreign"
strip -o "$work/stripped" "$library"
bytes=$(wc -c <"$work/stripped")
echo "install: libgluon.so is $bytes bytes stripped"
[ "$bytes" -le 8388608 ] || fail "the library is larger than 8 MiB"
