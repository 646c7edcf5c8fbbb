#!/bin/sh
# Puts a Python of a newer Debian into a folder, with the C library that it was linked with: for interpreters that this machine
# does not have.  Nothing is installed, and no root is needed.
#
#   tools/python_of_debian.sh VERSION FOLDER     3.14, say; prints the interpreter's path; exit 3: it cannot be had
#
# RELEASE (default sid) and MIRROR say where packages come from; every package is checked against the list's SHA-256.
#
# SPDX-License-Identifier: Apache-2.0
set -eu
version=$1
mkdir -p "$2"
folder=$(cd "$2" && pwd)
: "${RELEASE:=sid}" "${MIRROR:=http://deb.debian.org/debian}"
python=$folder/usr/bin/python$version

missing() { echo "python_of_debian: $*" >&2; exit 3; }

if [ ! -e "$folder/.complete" ]; then
    [ "$(uname -m)" = x86_64 ] || missing "only x86-64 is known here"
    for tool in curl xz dpkg-deb sha256sum; do command -v $tool >/dev/null || missing "there is no $tool"; done
    packages="python$version-minimal python$version libpython$version-minimal libpython$version-stdlib libpython$version-dev
        python$version-venv python3-pip-whl python3-setuptools-whl libc6 libexpat1 zlib1g libssl3t64 libffi8 libbz2-1.0 liblzma5
        libzstd1 libsqlite3-0 libuuid1 libstdc++6 libgcc-s1"
    curl -sf "$MIRROR/dists/$RELEASE/main/binary-amd64/Packages.xz" | xz -dc > "$folder/list" || missing "$MIRROR does not answer"
    # The list has the newest version of a package first, or last: one of them is enough.
    awk -v wanted=" $(echo $packages) " '
        /^Package: / { name = $2 }
        /^Filename: / { file = $2 }
        /^SHA256: / && index(wanted, " " name " ") { path[name] = file; sum[name] = $2 }
        END { for (name in path) print sum[name], path[name] }' "$folder/list" > "$folder/chosen"
    [ "$(wc -l < "$folder/chosen")" -eq "$(echo $packages | wc -w)" ] || missing "$RELEASE does not have Python $version"
    while read -r sum path; do
        curl -sf -o "$folder/package.deb" "$MIRROR/$path" || missing "$path cannot be downloaded"
        echo "$sum  $folder/package.deb" | sha256sum -c --quiet - >&2 || missing "$path is damaged"
        dpkg-deb -x "$folder/package.deb" "$folder"
    done < "$folder/chosen"
    rm -f "$folder/package.deb" "$folder/list"
    # Its own loader and libraries.  A script, since the loader has to be named: argv[0] says where the interpreter is.
    loader=$(find "$folder" -name ld-linux-x86-64.so.2 -not -type l | head -1)
    mv "$python" "$python.real"
    printf '#!/bin/sh\nexec "%s" --argv0 "$0" --library-path "%s" "%s" "$@"\n' "$loader" "$(dirname "$loader")" "$python.real" > "$python"
    chmod +x "$python"
    # Links to wheels are absolute in Debian.
    for link in $(find "$folder/usr" -type l -lname '/*'); do ln -sf "$folder$(readlink "$link")" "$link"; done
    sed -i "s|'/usr/share/python-wheels|'$folder/usr/share/python-wheels|" "$folder/usr/lib/python$version"/_sysconfigdata*.py
    "$python" -c 'import ssl, ctypes, zlib' >&2 || missing "the interpreter does not start"
    touch "$folder/.complete"
fi
echo "$python"
