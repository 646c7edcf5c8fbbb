#!/bin/sh
# Installs the wheel of the CUDA part beside the package's, first without NVIDIA's libraries, then with those of PyPI, and uses it;
# a GPU is not needed: without one, everything that is found must be found, and everything else must work.
#
#   tests/packages/wheel_cuda.sh WHEEL CUDA_WHEEL PYTHON
#
# SPDX-License-Identifier: Apache-2.0
set -eu
wheel=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
part=$(cd "$(dirname "$2")" && pwd)/$(basename "$2")
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() { echo "wheel: $*" >&2; exit 1; }

"$3" -m venv "$work/venv"
install() { "$work/venv/bin/pip" install -q --disable-pip-version-check --no-cache-dir "$@"; }
install "$wheel"
install --no-deps "$part"
cp "$here/train.py" "$work"
cd "$work"
# No library paths: what is found is found by the wheels.
alone() { env -i PATH="$work/venv/bin" HOME="$work" "$@"; }

# Without NVIDIA's libraries the package works, and the error names the one that is missing.  Those of the machine are out of
# sight where we may hide the list of its libraries.
: > empty
bare() { "$@"; }
if unshare -m sh -c "mount --bind '$work/empty' /etc/ld.so.cache" 2> /dev/null; then
    bare() { unshare -m sh -c 'mount --bind "$0" /etc/ld.so.cache && exec "$@"' "$work/empty" "$@"; }
elif /sbin/ldconfig -p | grep -q libcublas; then
    echo "wheel: missing libraries are not tested: this machine has them, and they cannot be hidden without root"
    bare() { :; }
fi
alone python train.py --folder "$work"
printf '%s\n' 'import mxnet as mx' 'print(mx.context.num_gpus())' 'try:' '    print(mx.nd.ones((2,), ctx=mx.gpu(0)).asnumpy())' \
    'except mx.MXNetError as error:' '    print(error)' > reason.py
reason() { "$@" env -i PATH="$work/venv/bin" HOME="$work" python reason.py; }
reason bare > said
[ ! -s said ] || { head -1 said | grep -qx 0 && grep -q 'libcu[a-z]*\.so' said; } || fail "without NVIDIA's libraries: $(cat said)"

if ! install "$part"; then
    echo "wheel: NVIDIA's libraries cannot be had: the rest is skipped"
    exit 0
fi
site=$(alone python -c 'import mxnet, os; print(os.path.dirname(mxnet.__file__))')
LD_LIBRARY_PATH= ldd "$site/lib/libgluon_cuda.so" > libraries
awk -v place="$(dirname "$site")/nvidia" '/=> not found/ || (/cublas|cudnn/ && index($3, place "/") != 1 && index($3, "/nvidia/") == 0) { print; bad = 1 }
    END { exit bad }' libraries || fail "libgluon_cuda.so does not find NVIDIA's libraries of PyPI"
reason > said
if head -1 said | grep -qx 0; then
    ! grep -q '\.so' said && grep -qi 'driver\|GPU\|CUDA' said || fail "with NVIDIA's libraries, without a GPU: $(cat said)"
    alone python train.py --folder "$work"
else
    grep -q '\[1\. 1\.\]' said || fail "with a GPU: $(cat said)"
fi
alone gluon doctor > doctor || fail "gluon doctor"
[ "$(wc -c < "$part")" -lt 100000000 ] || fail "it is larger than PyPI takes, 100 MB"
echo "wheel: $(basename "$part") works ($(wc -c < "$part" | awk '{ printf "%.1f MB", $1 / 1e6 }')); GPUs here: $(head -1 said)"
