#!/bin/sh
# Python's tests of threads under the thread sanitizer: tsan_python.sh BUILD PYTHON [PYTEST'S WORDS...].  BUILD is a build with
# GLUON_TSAN and GLUON_PYTHON; PYTHON has NumPy and pytest.
#
# CPython is not instrumented: what it does is ignored, and so is the order that its GIL and its queues make.  What only they keep
# apart would be reported although it is no race; tools/tsan.supp has these.
#
# SPDX-License-Identifier: Apache-2.0
set -eu
build=$(cd "$1" && pwd)
python=$(cd "$(dirname "$2")" && pwd)/$(basename "$2")
shift 2
[ $# -gt 0 ] || set -- tests/python/test_threads.py tests/python/test_data.py tests/python/test_trainer_store.py \
    tests/python/test_kvstore.py tests/python/test_sync_batch_norm.py
library=$("${CC:-cc}" -print-file-name=libtsan.so)
if [ ! -e "$library" ]; then
    echo "tsan: the compiler has no libtsan, Python's tests were not run"
    exit 0
fi
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

# Reports go to files, as tests look at what programs print.
more=
sanitized() {
    env LD_PRELOAD="$library" PYTHONPATH="$build/python" MXNET_CPU_WORKER_NTHREADS=3 PYTHONMALLOC=malloc \
        TSAN_OPTIONS="ignore_noninstrumented_modules=1 die_after_fork=0 report_thread_leaks=0 report_signal_unsafe=0 exitcode=0 $more suppressions=$PWD/tools/tsan.supp log_path=$logs/report" \
        "$python" "$@"
}

sanitized -c 'import sys, mxnet; sys.exit(not mxnet.__file__.startswith(sys.argv[1]))' "$build"
# A race of the user's is reported: the sanitizer sees the library's threads.
more=halt_on_error=1
sanitized -c '
import threading
from mxnet import nd
x = nd.zeros((3000000,))
threads = [threading.Thread(target=lambda: [x.__iadd__(1) for _ in range(8)]) for _ in range(2)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]' || true
more=
if ! grep -q "data race" "$logs"/* 2>/dev/null; then
    echo "tsan: two threads wrote to one array, and the sanitizer did not notice"
    exit 1
fi
rm "$logs"/*
status=0
sanitized -m pytest -q -p no:cacheprovider "$@" || status=$?
if [ -n "$(ls "$logs")" ]; then
    head -n 200 "$logs"/*
    exit 1
fi
exit $status
