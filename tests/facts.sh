#!/bin/sh
# Does tools/check_facts.py find a list of operators' names, and does it let uses of single operators pass?
# SPDX-License-Identifier: Apache-2.0
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/src/op" "$work/src/exec" "$work/cli" "$work/python"
cp -r "$root/src/op/def" "$root/src/op/formula" "$work/src/op"
fail() { echo "facts.sh: $1" >&2; exit 1; }
check() { python3 "$root/tools/check_facts.py" "$work" >"$work/said"; }

printf '%s\n' 'void f(void) { MX_OP("softmax"); MX_OP("Convolution"); mx_g1("expm1", x); mx_g2("batch_dot", a, b);' \
    'mx_op_find("Pooling"); mx_step_is(step, "Concat"); if (!strcmp(op->name, "Dropout")) g("LeakyReLU"); } /* "RNN" */' \
    >"$work/src/exec/uses.c"
check || fail "uses of single operators are taken for a list: $(cat "$work/said")"
echo 'const char *exact[] = {"softmax", "Convolution", "expm1", "batch_dot", "Pooling", "Concat", "Dropout"};' \
    >"$work/src/exec/list.c"
check && fail "a list of seven operators is not found"
grep -q '^src/exec/list.c: 7 .*Pooling' "$work/said" || fail "the list is not named: $(cat "$work/said")"
rm "$work/src/exec/list.c"
echo 'METHODS = ["softmax", "expm1", "batch_dot", "broadcast_add", "topk", "argsort", "log_softmax"]' >"$work/python/m.py"
check && fail "a list in Python is not found"
echo "facts.sh: lists of operators are found"
