#!/bin/sh
# Installs a wheel into a fresh environment and uses it there: without a compiler, outside of our tree; then as a C
# programmer who has one.
#
#   tests/packages/wheel.sh WHEEL PYTHON
#
# SPDX-License-Identifier: Apache-2.0
set -eu
wheel=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() { echo "wheel: $*" >&2; exit 1; }

"$2" -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check "$wheel"
cp "$here/train.py" "$work"
cd "$work"

# Nothing in PATH but the environment: no compiler, no tools.
alone() { env -i PATH="$work/venv/bin" HOME="$work" "$@"; }
alone python train.py --folder "$work"
alone gluon doctor > doctor
head -1 doctor | grep -q '^gluon ' || fail "gluon doctor prints $(head -1 doctor)"
alone gluon compile net -o net.c --name net --shape 1,1,8,8
site=$(alone python -c 'import mxnet, os; print(os.path.dirname(mxnet.__file__))')
[ -f "$site/_core.pyi" ] && [ -f "$site/py.typed" ] || fail "the stubs are missing"
for _ in 1 2 3 4 5; do # of the processor: other programs do not count
    alone python -c 'import time; start = time.process_time(); import mxnet; print(f"{time.process_time() - start:.3f}")'
done | sort | head -1 > import
awk '{ exit $1 > 0.1 }' import || fail "import mxnet takes $(cat import) s, wanted 0.1 at most"
echo "wheel: import mxnet takes $(cat import) s"
# Libraries come with the wheel, or are those that every Linux has (zlib is one of them).
for file in "$site"/_core*.so "$site/lib/libgluon.so.0" "$site/bin/gluon"; do
    ldd "$file" | awk -v site="$(dirname "$site")" '/=> not found/ || (/jpeg|png/ && index($3, site) != 1) { print; bad = 1 } END { exit bad }' ||
        fail "$file uses libraries of this machine"
done

# With a compiler: the library and the compiled network.
: "${CC:=cc}"
flags=$(alone python -m mxnet.config --cflags --libs)
"$CC" -std=c11 -pedantic -Wall -Wextra -Werror "$here/../install/outside.c" $flags -o outside
env -i ./outside
"$CC" -O2 net.c -lm -o net
env -i ./net < in.raw > said
paste wanted said | awk -f "$here/agree.awk" || fail "the compiled network differs"

"$work/venv/bin/pip" uninstall -q -y gluon-mxnet
[ ! -e "$site/lib" ] && [ ! -e "$site/include" ] || fail "files are left after uninstalling"
[ "$(wc -c < "$wheel")" -lt 100000000 ] || fail "it is larger than PyPI takes, 100 MB"
echo "wheel: $(basename "$wheel") works ($(wc -c < "$wheel" | awk '{ printf "%.1f MB", $1 / 1e6 }'))"
