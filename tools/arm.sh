#!/bin/sh
# Other machines, under qemu: the library on 64-bit ARM, and networks compiled to one C file on all of them.
#
#   tools/arm.sh BUILD     BUILD: a build of this machine, whose results the others must agree with
#
# ARM has tests of kernels, plans and files, and networks that this machine exported.  32-bit ARM, RISC-V and s390x, which
# is big-endian, run the C files; the library refuses to build there.  What is not installed is skipped with a message.
#
# SPDX-License-Identifier: Apache-2.0
set -eu
source=$(cd "$(dirname "$0")/.." && pwd)
build=$(cd "$1" && pwd)
: "${JOBS:=2}"
work=$build/arm/models

fail() { echo "arm: $*" >&2; exit 1; }

# Columns of numbers in two files agree within rounding.
agree() {
    paste "$1" "$2" | awk -f "$source/tests/packages/agree.awk" || fail "$3: $1 and $2 differ"
}

models="lenet:1,1,28,28 mlp:3,20 residual:1,3,32,32 mobile:2,3,21,21 waves:2,4,30 mixed:2,3,4 sorting:2,5 words:4,2,3
    last:2,8,8,3"
rm -rf "$work" && mkdir -p "$work" && cd "$work"
"$build/tests/cli_models" > /dev/null
for model in $models; do
    name=${model%%:*}
    "$build/bin/gluon" compile "$name" -o "$name.c" --name "$name" --shape "${model#*:}"
done

# ---- one C file, everywhere ----------------------------------------------------------------------------------------
# $1: the name in qemu-NAME, $2: the prefix of the compiler
one_c_file() {
    if ! command -v "$2-gcc" > /dev/null || ! command -v "qemu-$1" > /dev/null; then
        echo "arm: $1 skipped: $2-gcc or qemu-$1 is missing (Debian packages gcc-$2, qemu-user)"
        return
    fi
    for model in $models; do
        name=${model%%:*}
        "$2-gcc" -std=c99 -pedantic -Wall -Wextra -Werror -O2 -static "$name.c" -lm -o "$name.$1"
        cp "$name.raw" in.raw
        [ "$1" != s390x ] || "$2-objcopy" -I binary -O binary --reverse-bytes=4 in.raw
        "qemu-$1" "./$name.$1" < in.raw > "$name.said" || fail "$name fails on $1"
        agree "$name.answer" "$name.said" "$name on $1"
    done
    echo "arm: one C file on $1: $(echo $models | wc -w) networks agree"
}
one_c_file aarch64 aarch64-linux-gnu
one_c_file arm arm-linux-gnueabihf
one_c_file riscv64 riscv64-linux-gnu
one_c_file s390x s390x-linux-gnu

# The library names its reason where it cannot be built.
# $1: the compiler, $2: what the message says
refused() {
    command -v "$1" > /dev/null || return 0
    ! cmake -S "$source" -B refused -DCMAKE_C_COMPILER="$1" -DCMAKE_SYSTEM_NAME=Linux > refused.log 2>&1 || fail "the build for $1 is not refused"
    grep -q "$2" refused.log || fail "the build for $1 ends with $(tail -3 refused.log)"
    rm -rf refused
}
refused arm-linux-gnueabihf-gcc "64-bit"
refused s390x-linux-gnu-gcc "little-endian"

# ---- the library on 64-bit ARM ---------------------------------------------------------------------------------------
if ! command -v aarch64-linux-gnu-gcc > /dev/null || ! command -v qemu-aarch64 > /dev/null; then
    echo "arm: the library skipped: aarch64-linux-gnu-gcc or qemu-aarch64 is missing (Debian packages gcc-aarch64-linux-gnu, qemu-user)"
    exit 0
fi
sysroot=$build/arm/sysroot
sh "$source/tools/sysroot.sh" "$sysroot" arm64 libcmocka0 libcmocka-dev zlib1g zlib1g-dev libjpeg62-turbo libjpeg62-turbo-dev \
    libjpeg-dev libpng16-16 libpng-dev || { echo "arm: the library skipped: its libraries cannot be had for arm64"; exit 0; }

tests="cpu_gemm cpu_conv cpu_vmath cpu_pointwise cpu_small_types op_ops op_schema exec_plan exec_random pass_layout ndarray_files ndarray_formats
    base_image base_json graph_symbol_json gluon_files gluon_predict gluon_hybrid gluon_train_step"
# Optimised as usual but without debugging information: the build is most of the time.
cmake -S "$source" -B "$build/arm/build" --toolchain "$source/cmake/arm64.cmake" -DGLUON_SYSROOT="$sysroot" -DGLUON_WERROR=ON \
    -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_FLAGS_RELEASE="-O2 -DNDEBUG" -DGLUON_BENCH=OFF -DGLUON_CUDA=OFF -DGLUON_MPI=OFF \
    ${CMAKE_FLAGS:-} > "$build/arm/configure.log" || { cat "$build/arm/configure.log"; fail "cmake"; }
cmake --build "$build/arm/build" -j "$JOBS" --target $(printf 'test_%s ' $tests) example_deploy gluon_command
# Some tests compile the C file of a network and load it.
(cd "$build/arm/build" && CC=aarch64-linux-gnu-gcc \
    ctest --output-on-failure --no-label-summary --no-tests=error --timeout 900 -j "$JOBS" -R "^test_($(echo $tests | tr ' ' '|'))\$")

# Bytes and 16-bit floats, and networks that this machine exported, at every level and on CPUs that have no higher one.
cd "$work"
run() { qemu-aarch64 -L /usr/aarch64-linux-gnu -E LD_LIBRARY_PATH="$sysroot/usr/lib/aarch64-linux-gnu:$sysroot/lib/aarch64-linux-gnu" "$@"; }
for row in max:generic cortex-a53:neon neoverse-n1:armv82 max:armv86; do
    cpu=${row%%:*} level=${row#*:}
    qemu-aarch64 -cpu help | grep -qw "$cpu" || { echo "arm: level $level skipped: this qemu has no $cpu"; continue; }
    export QEMU_CPU="$cpu" GLUON_TEST_LEVEL="$level" GLUON_CPU_LEVEL=
    [ "$level" != generic ] || GLUON_CPU_LEVEL=generic # the others must be found
    [ "$level" = armv86 ] || run "$build/arm/build/tests/test_cpu_small_types" > level.log 2>&1 ||
        { cat level.log; fail "level $level on $cpu"; } # ctest has run it at the highest
    for model in $models; do
        name=${model%%:*}
        run "$build/arm/build/bin/gluon" predict "$name" --input "$name.npy" --all > "$name.said"
        agree "$name.answer" "$name.said" "$name on ARM, level $level"
    done
done
run "$build/arm/build/examples/deploy" lenet-symbol.json lenet-0000.params lenet.npy > lenet.said
agree lenet.answer lenet.said "deploy.c on ARM"
echo "arm: networks exported here agree on 64-bit ARM"
