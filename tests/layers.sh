#!/bin/sh
# Tests tools/check_layers.sh on small trees: a clean one passes, each kind of offence is found.
#
# SPDX-License-Identifier: Apache-2.0
set -eu
checker=$(cd "$(dirname "$0")/../tools" && pwd)/check_layers.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# tree FILE LINE: a clean tree, plus LINE in FILE.
tree() {
    rm -rf "$work/t"
    mkdir -p "$work/t/include/gluon" "$work/t/examples/c"
    for layer in base ndarray op graph pass exec gluon cpu/kernels cuda/kernels; do mkdir -p "$work/t/src/$layer"; done
    echo '#include <stdint.h>' >"$work/t/include/gluon/array.h"
    echo '#include "gluon/array.h"' >"$work/t/src/base/a.h"
    printf '#include "base/a.h"\n#include "gluon/op.gen.h"\n' >"$work/t/src/exec/run.c"
    printf '#include "op/op.h"\n#include "gemm.inc"\n' >"$work/t/src/cpu/kernels/k.c"
    echo '#include <gluon.h>' >"$work/t/examples/c/e.c"
    echo "$2" >>"$work/t/$1"
}

expect() {
    tree "$2" "$3"
    if sh "$checker" "$work/t" >"$work/out"; then result=pass; else result=fail; fi
    [ $result = "$1" ] || { echo "expected $1 for '$3' in $2, got:"; cat "$work/out"; exit 1; }
}

expect pass src/gluon/b.c '#include "exec/run.h"'
expect pass src/gluon/b.c '#include "gluon/class.h"'
expect pass src/base/a.c '#include <stdio.h>'
expect fail src/base/a.c '#include "op/op.h"'
expect fail src/op/a.c '  #  include "exec/run.h"'
expect fail src/exec/run.c '#include "gluon/class.h"'
expect fail src/exec/run.c '#include "cpu/device.h"'
expect fail src/cpu/a.c '#include "exec/run.h"'
expect fail src/cpu/a.c '#include "../op/op.h"'
expect fail src/cpu/a.c '#include "cuda/device.h"'
expect pass src/cuda/kernels/k.cu '#include "op/op.h"'
expect fail src/cuda/kernels/k.cu '#include "exec/run.h"'
expect fail src/cuda/kernels/k.cuh '#include "cpu/device.h"'
expect fail include/gluon/array.h '#include "base/a.h"'
expect fail include/gluon/array.h '#include <gluon/class.h>'
expect fail src/gluon/array.h '#include <stdint.h>'
expect fail examples/c/e.c '#include "base/a.h"'
echo "check_layers.sh finds each kind of offence"
