#!/bin/sh
# The Python tests in which the instruction level matters, at the levels below the best one that this machine has.
#
#     test_levels.sh PYTHON [options of pytest]
#
# SPDX-License-Identifier: Apache-2.0
set -e
python=$1
shift
level() { GLUON_CPU_LEVEL=$1 "$python" -c 'from mxnet import _core; print(_core.cpu_level())'; }
best=$(level "")
for name in generic avx2; do
    if [ "$name" != "$best" ] && [ "$(level $name)" = $name ]; then
        echo "instruction level $name, below $best:"
        GLUON_CPU_LEVEL=$name "$python" -m pytest -q -m levels "$@" tests/python
    fi
done
