#!/bin/sh
# Makes dist/gluon_VERSION_ARCHITECTURE.deb from a build: library, headers, command, manual; installs and removes it in a test.
#
#   tools/deb.sh BUILD
#
# SPDX-License-Identifier: Apache-2.0
set -eu
source=$(cd "$(dirname "$0")/.." && pwd)
build=$1
command -v dpkg-deb > /dev/null || { echo "deb: skipped: there is no dpkg-deb here"; exit 0; }
version=$(sed -n 's/^project(gluon VERSION \([0-9.]*\).*/\1/p' "$source/CMakeLists.txt")
architecture=$(dpkg --print-architecture)
root=$build/deb
target=dist/gluon_${version}_$architecture.deb

rm -rf "$root" && mkdir -p "$root/DEBIAN" dist
cmake --install "$build" --prefix "$root/usr" --strip > "$build/deb.log"
strip --strip-debug "$root"/usr/lib/libgluon.a
gzip -9n "$root/usr/share/man/man1/gluon.1"
mkdir -p "$root/usr/share/doc/gluon"
cp "$source/LICENSE" "$root/usr/share/doc/gluon/copyright"

# The packages of the libraries that ours and the command need.
needed() {
    ldd "$root"/usr/lib/libgluon.so.*.*.* "$root/usr/bin/gluon" | awk '$3 ~ /^\// { print $3 }' | sort -u | while read -r path; do
        dpkg-query -S "$(realpath "$path")" "$path" 2> /dev/null | sed -n 's/:.*//p;q'
    done | sort -u | paste -sd , | sed "s/,/, /g; s/libc6/& (>= $newest)/"
}
newest=$(objdump -T "$root"/usr/lib/libgluon.so.*.*.* "$root/usr/bin/gluon" | sed -n 's/.*GLIBC_\([0-9.]*\).*/\1/p' | sort -V | tail -1)
cat > "$root/DEBIAN/control" <<EOT
Package: gluon
Version: $version
Architecture: $architecture
Maintainer: The Gluon developers <gluon@localhost>
Section: libs
Priority: optional
Installed-Size: $(du -sk "$root/usr" | cut -f1)
Depends: $(needed)
Suggests: openmpi-bin
Description: deep learning in C: arrays, operators, autograd, blocks
 The library libgluon with its headers, its files for pkg-config and CMake, and
 the gluon command, which runs, compiles and converts trained networks.
EOT
echo "activate-noawait ldconfig" > "$root/DEBIAN/triggers"
chmod -R go=rX "$root"
dpkg-deb --root-owner-group -b "$root" "$target" > "$build/deb.log"
ls -l "$target"
sh "$source/tests/packages/deb.sh" "$target"
