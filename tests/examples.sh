#!/bin/sh
# Runs the C examples: they end well, their losses fall, and one seed gives one result.
#
#     examples.sh FOLDER          all of them, with small settings
#     examples.sh FOLDER demo     the demo as `make demo` runs it: trains for three epochs, then shows
#
# SPDX-License-Identifier: Apache-2.0
set -eu
programs=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
    echo "examples: $1" >&2
    exit 1
}

# Prints the number behind "loss" in line $2 of file $1.
loss() { sed -n "$2p" "$1" | sed 's/.*loss \([0-9.]*\).*/\1/'; }

# $1: program; the rest: its options.  The loss of the last line that has one is below that of the first.
falls() {
    name=$1
    shift
    "$programs/$name" "$@" >"$name.out" || fail "$name failed"
    grep loss "$name.out" >"$name.losses"
    first=$(loss "$name.losses" 1)
    last=$(loss "$name.losses" '$')
    awk "BEGIN { exit !($last < $first) }" || fail "$name: the loss went from $first to $last"
    echo "$name: loss $first -> $last"
}

if ! "$programs/lenet" --epochs 1 --examples 64 2>absent >/dev/null; then
    grep -q "apt-get install" absent || fail "lenet: $(cat absent)"
    cat absent
    data=no
fi

if [ "${2:-}" = demo ]; then
    [ "${data:-yes}" = yes ] || exit 77
    "$programs/lenet" | tee demo.out
    accuracy=$(sed -n 's/.*test \([0-9.]*\) %.*/\1/p' demo.out | tail -1)
    awk "BEGIN { exit !($accuracy >= 86) }" || fail "lenet reaches $accuracy %, wanted 86"
    "$programs/lenet" --show
    exit 0
fi

falls linear_scratch
falls linear_gluon
falls tree_lstm --epochs 4
falls custom_block --steps 200
falls language_model --quick
falls gpt2 --quick
grep -q "tokens/s" gpt2.out || fail "gpt2: no speed of generating"

# A training that is killed after its first checkpoint and resumed ends like one that was not.
"$programs/gpt2" --quick --steps 300 >whole.out
rm gpt2.step
"$programs/gpt2" --quick --steps 300 >killed.out &
running=$!
for wait in $(seq 600); do
    [ ! -e gpt2.step ] || break
    sleep 0.1
done
kill -9 $running 2>/dev/null || true
wait $running 2>/dev/null || true
"$programs/gpt2" --quick --steps 300 --resume >resumed.out || fail "gpt2 --resume failed"
grep -q "resumed after step" resumed.out || fail "gpt2 --resume: $(cat resumed.out)"
for out in whole.out resumed.out; do grep "step  300" $out | sed 's/, [0-9]* tokens.*//' >$out.last; done
[ "$(cat gpt2.step)" = 300 ] || fail "gpt2: the last checkpoint is that of step $(cat gpt2.step)"
[ ! -s resumed.out.last ] || cmp whole.out.last resumed.out.last || fail "gpt2: a resumed training ends differently"
[ "${data:-yes}" = yes ] || exit 0

falls lenet --epochs 2 --examples 2000
if "$programs/distributed" --epochs 1 --lenet --examples 128 >/dev/null 2>absent || ! grep -q libopenmpi absent; then
    falls distributed --epochs 2 --lenet --examples 2000
fi
"$programs/lenet" --epochs 2 --examples 2000 >again.out
for out in lenet.out again.out; do sed 's/, [0-9]* samples.*//' $out >$out.plain; done
cmp lenet.out.plain again.out.plain || fail "lenet: two runs with one seed differ"
"$programs/lenet" --show >shown.out || fail "lenet --show failed"
grep -q "ankle boot" shown.out || fail "lenet --show names no ankle boot"
rm lenet.params
"$programs/lenet" --show 2>error.out >/dev/null && fail "lenet --show succeeds without parameters"
grep -q "lenet.params" error.out || fail "lenet --show does not say what is missing: $(cat error.out)"
