#!/bin/sh
# Builds a free-threaded Python from Debian's source into a folder: for a machine that has none.  Nothing is installed, and no
# root is needed; it takes about a minute on a fast machine, ten on a slow one.
#
#   tools/python_freethreaded.sh VERSION FOLDER     3.13, say; prints the interpreter's path; exit 3: it cannot be had
#
# RELEASE (default sid) and MIRROR say where the source comes from; it is checked against the list's SHA-256.
#
# SPDX-License-Identifier: Apache-2.0
set -eu
version=$1
mkdir -p "$2"
folder=$(cd "$2" && pwd)
: "${RELEASE:=sid}" "${MIRROR:=http://deb.debian.org/debian}" "${JOBS:=2}"
python=$folder/bin/python${version}t

missing() { echo "python_freethreaded: $*" >&2; exit 3; }

if [ ! -x "$python" ]; then
    for tool in curl xz sha256sum make cc; do command -v $tool > /dev/null || missing "there is no $tool"; done
    curl -sf "$MIRROR/dists/$RELEASE/main/source/Sources.xz" | xz -dc > "$folder/list" || missing "$MIRROR does not answer"
    # The list has several versions, and a mirror may lack the newest.
    awk -v wanted="python$version" '
        /^Package: / { mine = $2 == wanted; sums = 0 }
        /^[A-Z]/ { sums = /^Checksums-Sha256:/ }
        mine && sums && $3 ~ /\.orig\.tar\.xz$/ { sum = $1; file = $3 }
        mine && /^Directory: / { print sum, $2 "/" file }' "$folder/list" | sort -k 2 -r -V > "$folder/sources"
    rm -f "$folder/list" "$folder/source.tar.xz"
    while read -r sum path; do
        curl -sf -o "$folder/source.tar.xz" "$MIRROR/$path" || { echo "python_freethreaded: $path is not there" >&2; continue; }
        echo "$sum  $folder/source.tar.xz" | sha256sum -c --quiet - >&2 || missing "$path is damaged"
        break
    done < "$folder/sources"
    [ -e "$folder/source.tar.xz" ] || missing "no source of Python $version can be downloaded"
    rm -rf "$folder/source" && mkdir "$folder/source"
    xz -dc "$folder/source.tar.xz" | tar -xf - -C "$folder/source" --strip-components=1
    (cd "$folder/source" && ./configure --disable-gil --disable-test-modules --prefix="$folder" && make -j "$JOBS" && make install) \
        > "$folder/build.log" 2>&1 || missing "the build fails: $(tail -1 "$folder/build.log")"
    "$python" -c 'import ssl, ctypes, zlib' >&2 ||
        missing "its modules are incomplete (Debian packages libssl-dev libffi-dev zlib1g-dev); remove $folder and try again"
    rm -rf "$folder/source" "$folder/source.tar.xz"
fi
echo "$python"
