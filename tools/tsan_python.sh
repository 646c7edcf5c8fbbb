#!/bin/sh
# Python's tests of threads under the thread sanitizer: tsan_python.sh BUILD PYTHON [TEST...].  BUILD is a build with GLUON_TSAN and
# GLUON_PYTHON; PYTHON has NumPy and pytest.
#
# CPython is not instrumented: what it does is ignored, and its own order (the GIL, its queues) is not seen.  Accesses that only the
# GIL keeps apart would therefore be reported although they are none; tools/tsan.supp names them.
#
# SPDX-License-Identifier: Apache-2.0
set -eu
build=$1
python=$(cd "$(dirname "$2")" && pwd)/$(basename "$2")
shift 2
[ $# -gt 0 ] || set -- tests/python/test_threads.py tests/python/test_data.py tests/python/test_trainer_store.py \
    tests/python/test_kvstore.py tests/python/test_sync_batch_norm.py
library=$("${CC:-cc}" -print-file-name=libtsan.so)
if [ ! -e "$library" ]; then
    echo "tsan: the compiler has no libtsan, Python's tests were not run"
    exit 0
fi
log=$(mktemp -d)
trap 'rm -rf "$log"' EXIT
# The address space of the sanitizer leaves no room for a randomised one on some kernels.
LD_PRELOAD=$library PYTHONPATH=$build/python MXNET_CPU_WORKER_NTHREADS=3 PYTHONMALLOC=malloc \
    TSAN_OPTIONS="ignore_noninstrumented_modules=1 die_after_fork=0 report_thread_leaks=0 report_signal_unsafe=0 suppressions=$PWD/tools/tsan.supp log_path=$log/report exitcode=0" \
    "$python" -m pytest -q -p no:cacheprovider "$@" || status=$?
if [ -n "$(ls "$log")" ]; then
    cat "$log"/*
    exit 1
fi
exit ${status:-0}
