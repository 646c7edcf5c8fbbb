#!/bin/sh
# The demo: LeNet on Fashion-MNIST, first in C, then in Python (imperatively, then hybridized); the model that Python
# exports is run by a C program and as one C file, and all three must agree.
#
#   tools/demo.sh BUILD
#
# SPDX-License-Identifier: Apache-2.0
set -eu
source=$(cd "$(dirname "$0")/.." && pwd)
cd "$1"

echo "== C: train and save; a fresh process loads and shows"
examples/lenet
examples/lenet --show

echo "== Python: imperative, then hybridized"
venv/bin/python "$source/examples/python/lenet.py" --save fashion

echo "== the exported model without Python"
examples/deploy fashion-symbol.json fashion-0000.params fashion.npy > fashion.deployed
bin/gluon compile fashion -o fashion.c --name fashion --shape 1,1,28,28
cc -O2 fashion.c -lm -o fashion.program
tail -c 3136 fashion.npy | ./fashion.program > fashion.compiled # 784 numbers of 4 bytes end the file
paste fashion.scores fashion.deployed fashion.compiled | awk '
    function apart(a, b) { d = a - b; return (d < 0 ? -d : d) > 1e-4 }
    BEGIN { print "class     Python          deploy.c        one C file" }
    { printf "%5d  %14.6f  %14.6f  %14.6f\n", NR - 1, $1, $2, $3; wrong += apart($1, $2) + apart($1, $3) }
    END { print NR == 10 && !wrong ? "the three agree" : "THE THREE DIFFER"; exit !(NR == 10 && !wrong) }'
