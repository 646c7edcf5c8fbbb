#!/bin/sh
# Installs missing Debian packages.
#
#   tools/setup.sh GROUP...     groups: build test data bench check python mpi docs fuzz arm
#
# If packages cannot be installed (no apt, not root, no network), it names them and continues if the compiler and
# CMake are installed: everything else is optional, and the build reports what it leaves out.
#
# SPDX-License-Identifier: Apache-2.0
set -eu

packages() {
    case $1 in
        build) echo gcc libc6-dev make cmake zlib1g-dev libjpeg-dev libpng-dev ;;
        test)  echo libcmocka-dev pkg-config ;;
        data)  echo dataset-fashion-mnist ;;
        bench) echo libdnnl-dev ;;
        check) echo clang clang-format ;;
        mpi)   echo libopenmpi-dev openmpi-bin ;;
        python) echo python3 python3-venv python3-dev ;;
        fuzz)  echo clang libclang-rt-dev ;;
        arm)   echo qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross gcc-arm-linux-gnueabihf libc6-dev-armhf-cross \
                    gcc-riscv64-linux-gnu libc6-dev-riscv64-cross gcc-s390x-linux-gnu libc6-dev-s390x-cross ;;
        docs)  echo pkg-config dataset-fashion-mnist ;;
        *)     echo "setup: unknown group '$1' (known: build test data bench check python mpi docs fuzz arm)" >&2; exit 2 ;;
    esac
}

installed() {
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

wanted=""
for group in "$@"; do
    names=$(packages "$group")
    wanted="$wanted $names"
done

# Without dpkg packages cannot be queried; only the essentials are checked.
missing=""
if command -v dpkg-query >/dev/null 2>&1; then
    for name in $wanted; do
        installed "$name" || missing="$missing $name"
    done
fi

if [ -n "$missing" ]; then
    echo "setup: missing packages:$missing"
    if command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ]; then
        export DEBIAN_FRONTEND=noninteractive
        options="-qq -y --no-install-recommends -o Acquire::Retries=2 -o Acquire::http::Timeout=20 -o DPkg::Lock::Timeout=120"
        # One by one if they fail together: one unavailable package must not block the others.
        apt-get -qq update || true
        # shellcheck disable=SC2086
        apt-get install $options $missing || for name in $missing; do
            apt-get install $options "$name" || echo "setup: could not install $name" >&2
        done
    else
        echo "setup: install them with: apt-get install$missing" >&2
    fi
fi

for tool in cc cmake make; do
    if ! command -v "$tool" >/dev/null 2>&1; then
        echo "setup: '$tool' is needed to build (packages:$wanted)" >&2
        exit 1
    fi
done
