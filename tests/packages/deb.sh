#!/bin/sh
# Installs a Debian package below a folder, uses it there and removes it.
#
#   tests/packages/deb.sh PACKAGE
#
# SPDX-License-Identifier: Apache-2.0
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
: "${CC:=cc}"

fail() { echo "deb: $*" >&2; exit 1; }

# Packages that it depends on are installed here, not there.
root=$work/root
mkdir -p "$root/var/lib/dpkg/info" "$root/var/lib/dpkg/updates" "$root/var/lib/dpkg/triggers"
touch "$root/var/lib/dpkg/status" "$root/var/lib/dpkg/available"
package() { dpkg --root="$root" --force-depends --force-not-root --log=/dev/null "$@" > "$work/log" 2>&1 || { cat "$work/log"; fail "dpkg $*"; }; }

dpkg-deb -f "$1" Depends | grep -q libc6 || fail "the package does not depend on libc6: $(dpkg-deb -f "$1" Depends)"
package -i "$1"
export LD_LIBRARY_PATH="$root/usr/lib" PKG_CONFIG_PATH="$root/usr/lib/pkgconfig"
"$root/usr/bin/gluon" doctor | grep -q '^gluon ' || fail "gluon doctor"
zcat "$root/usr/share/man/man1/gluon.1.gz" | grep -q '^\.TH' || fail "the manual page is missing"
"$CC" -std=c11 -pedantic -Wall -Wextra -Werror $(pkg-config --cflags gluon) "$here/../install/outside.c" $(pkg-config --libs gluon) \
    -o "$work/outside"
"$work/outside"
sh "$here/cmake.sh" find "$root/usr"

package -r gluon
left=$(find "$root" -path "$root/var" -prune -o -type f -print | head -3)
[ -z "$left" ] || fail "files are left: $left"
echo "deb: $(basename "$1") was installed, used and removed"
