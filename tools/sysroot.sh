#!/bin/sh
# Unpacks Debian packages of another architecture into a folder, for cross-compiling.
#
#   tools/sysroot.sh FOLDER ARCHITECTURE PACKAGE...     exit 0: they are there; 3: they cannot be had
#
# apt works on lists and a cache inside FOLDER, so that nothing is installed and this machine's apt does not change.
#
# SPDX-License-Identifier: Apache-2.0
set -eu
folder=$1 architecture=$2
shift 2

stamp="$folder/.unpacked"
[ "$(cat "$stamp" 2>/dev/null)" = "$*" ] && exit 0
command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || { echo "sysroot: needs apt-get and dpkg-deb" >&2; exit 3; }
rm -rf "$folder"
mkdir -p "$folder/apt/lists/partial" "$folder/apt/cache/archives/partial" "$folder/debs"
folder=$(cd "$folder" && pwd)
touch "$folder/apt/status"

apt() {
    apt-get -qq -o APT::Architecture="$architecture" -o APT::Architectures="$architecture" -o APT::Sandbox::User="" \
        -o Dir::State="$folder/apt" -o Dir::State::status="$folder/apt/status" -o Dir::Cache="$folder/apt/cache" \
        -o Acquire::Retries=2 -o Acquire::http::Timeout=20 "$@"
}
(cd "$folder/debs" && apt update && apt download "$@") || { echo "sysroot: $* cannot be had for $architecture" >&2; exit 3; }
for package in "$folder"/debs/*.deb; do
    dpkg-deb -x "$package" "$folder"
done
rm -rf "$folder/apt" "$folder/debs"
echo "$*" > "$stamp"
