#!/bin/sh
# Programs that are wrong: the compiler refuses each, with a message that says what is missing or of the wrong kind.
#
#   tests/wrong_code.sh COMPILER INCLUDE_FOLDER
#
# SPDX-License-Identifier: Apache-2.0
set -eu
compiler=$1
include=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Compiles a statement in a function with net, x and trainer.
compile() {
    cat >"$work/program.c" <<END
#include <gluon.h>
void use(mx_block *net, mx_array *x, mx_trainer *trainer);
void use(mx_block *net, mx_array *x, mx_trainer *trainer)
{
    $1;
    (void)net, (void)x, (void)trainer;
}
END
    "$compiler" -std=c11 -Wall -Wextra -fsyntax-only -I"$include" "$work/program.c" >"$work/log" 2>&1
}

# wrong STATEMENT MESSAGE
wrong() {
    if compile "$1"; then
        echo "wrong_code: '$1' compiles"
        exit 1
    fi
    grep -q "error.*$2" "$work/log" || {
        cat "$work/log"
        echo "wrong_code: '$1' is refused without '$2'"
        exit 1
    }
}

compile "mx_call(net, mx_concat(MX_ARRAYS(x, mx_zeros(.shape = MX_DIMS(2, 3)))))" || { cat "$work/log"; exit 1; }

# Empty lists.
wrong 'mx_call(net)' 'mx_call(block, inputs): there are no inputs'
wrong 'mx_trace(net)' 'mx_trace(block, inputs): there are no inputs'
wrong 'mx_concat(MX_ARRAYS())' 'MX_ARRAYS() has no arrays'
wrong 'mx_zeros(.shape = MX_DIMS())' 'MX_DIMS() has no sizes: MX_SCALAR_DIMS'
wrong 'mx_index(x)' 'there are no keys'
wrong 'mx_sequential()' 'mx_sequential_make(false, NULL) makes one without blocks'
wrong 'mx_hybrid_sequential()' 'mx_sequential_make(true, NULL) makes one without blocks'
wrong 'mx_results()' 'a forward returns at least one array'

# Wrong kinds.
wrong 'mx_call(x, x)' 'incompatible'
wrong 'mx_call(net, net)' 'incompatible'
wrong 'mx_add(net, x)' 'incompatible'
wrong 'mx_add(x, 3)' 'int'
wrong 'mx_trainer_step(net, 1)' 'incompatible'
wrong 'mx_concat(MX_ARRAYS(x, net))' 'incompatible'
wrong 'mx_sequential(net, x)' 'incompatible'
wrong 'mx_softmax(x, .axes = 1)' 'axes'

echo "wrong_code: all refused"
