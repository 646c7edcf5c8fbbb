#!/bin/sh
# Tests tools/check_families.py on small trees: a clean one passes, each kind of offence is found.
#
# SPDX-License-Identifier: Apache-2.0
set -eu
checker=$(cd "$(dirname "$0")/../tools" && pwd)/check_families.py
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A clean tree: one operator written out, two that come from an X-macro, and one pass.
clean_tree() {
    rm -rf "$work/t"
    for folder in op/def/norm op/def/random op/formula cpu/kernels/norm cpu/kernels/random cuda/kernels/norm cuda/kernels/random pass; do
        mkdir -p "$work/t/src/$folder"
    done
    cd "$work/t/src"
    echo '#define ROWS(X) X(normal) X(gamma)' >op/formula/draw.h
    cat >op/def/norm/batch_norm.c <<'END'
#include <math.h>
#include "op/op.gen.h"
mx_op mx_family_batch_norm[] = {{.name = "BatchNorm", .doc = "}{", .samples = (const mx_sample[]){{"2,3"}, {0}}}, {0}};
END
    cat >op/def/random/random.c <<'END'
#include "op/formula/draw.h"
#define ROW(x) {.name = "_random_" #x, .inputs = "data"},
mx_op mx_family_random[] = {ROWS(ROW) {0}};
END
    for side in cpu cuda; do
        suffix=c
        [ $side = cpu ] || suffix=cu
        echo "mx_kernel mx_${side}_kernels_batch_norm[] = {{\"BatchNorm\", run, NULL}, {NULL}};" >$side/kernels/norm/batch_norm.$suffix
        cat >$side/kernels/random/random.$suffix <<END
#include "op/formula/draw.h"
#define KERNEL(x) {"_random_" #x, run, NULL},
mx_kernel mx_${side}_kernels_random[] = {ROWS(KERNEL) {NULL}};
END
    done
    echo '    {"dead", mx_pass_dead},' >pass/pipeline.c
    echo 'mx_code mx_pass_dead(mx_program *program)' >pass/dead.c
}

# expect RESULT COMMAND: the clean tree, changed by COMMAND in its src, gives RESULT: pass, or the text of an offence.
expect() {
    clean_tree
    eval "$2"
    if python3 "$checker" "$work/t" >"$work/out" 2>&1; then result=pass; else result=fail; fi
    if [ "$1" = pass ]; then [ $result = pass ]; else [ $result = fail ] && grep -qF "$1" "$work/out"; fi ||
        { echo "expected '$1' after '$2', got:"; cat "$work/out"; exit 1; }
}

expect pass :
expect pass 'mv cuda/kernels/norm/batch_norm.cu cuda/kernels/norm/batch_norm_fast.cu'
expect pass 'mv op/def/norm/batch_norm.c op/def/norm/batch_norm_parts.c'
expect pass 'mv cpu/kernels/norm/batch_norm.c cpu/kernels/norm/norm.c'
expect pass 'echo "mx_kernel mx_cpu_kernels_move[] = {{\"*movements\", run}, {NULL}};" >cpu/kernels/norm/move.c'
expect 'src/cuda/kernels/norm/layer_norm.cu: a kernel of BatchNorm' 'mv cuda/kernels/norm/batch_norm.cu cuda/kernels/norm/layer_norm.cu'
expect 'src/cuda/kernels/norm/batch.cu: a kernel of BatchNorm' 'mv cuda/kernels/norm/batch_norm.cu cuda/kernels/norm/batch.cu; mv op/def/norm/batch_norm.c op/def/norm/batchnorm.c'
expect 'src/cpu/kernels/random/batch_norm.c: a kernel of BatchNorm' 'mv cpu/kernels/norm/batch_norm.c cpu/kernels/random'
expect 'src/cuda/kernels/norm/random.cu: a kernel of _random_gamma' 'mv cuda/kernels/random/random.cu cuda/kernels/norm'
expect 'a kernel of _random_beta, which no file' 'echo "mx_kernel mx_cpu_kernels_beta[] = {{\"_random_\" \"beta\", run}, {NULL}};" >cpu/kernels/random/beta.c'
expect 'src/cpu/kernels/gemm: a folder' 'mkdir cpu/kernels/gemm'
expect 'found 3 descriptions and 0 kernels' 'rm cpu/kernels/*/* cuda/kernels/*/*'
expect 'could not preprocess' 'echo "#error no" >>cpu/kernels/norm/batch_norm.c'
expect 'pass dead is not in src/pass/dead.c' 'mv pass/dead.c pass/common.c'
expect 'pass dead is the function mx_pass_gone' 'sed -i s/mx_pass_dead/mx_pass_gone/ pass/pipeline.c'
expect 'lists no pass' ': >pass/pipeline.c'
echo "check_families.py finds each kind of offence"
