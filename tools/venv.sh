#!/bin/sh
# Creates a Python virtual environment once; the system's Python is not changed.
#
#   tools/venv.sh FOLDER PACKAGE...     exit 0: FOLDER/bin/python has them all; 3: they cannot be installed
#
# PYTHON (default python3) is the interpreter to use.
#
# SPDX-License-Identifier: Apache-2.0
set -eu

folder=$1
shift
python=${PYTHON:-python3}

# Debian packages venv and the headers separately; missing ones are installed by apt if possible.
usable() {
    "$1" - <<'EOF' 2>/dev/null
import ensurepip, os, sysconfig, venv
raise SystemExit(not os.path.exists(os.path.join(sysconfig.get_paths()["include"], "Python.h")))
EOF
}
if [ ! -x "$folder/bin/python" ]; then
    if ! usable "$python"; then
        sh "$(dirname "$0")/setup.sh" python
        usable "$python" || python=/usr/bin/python3
        usable "$python" || { echo "venv: $python has no venv or no headers (packages: python3-venv python3-dev)" >&2; exit 3; }
    fi
    rm -rf "$folder"
    "$python" -m venv "$folder" || { echo "venv: cannot create $folder" >&2; exit 3; }
fi

# Only packages that were not installed before are installed.
stamp="$folder/.installed"
touch "$stamp"
missing=""
for package in "$@"; do
    grep -qxF "$package" "$stamp" || missing="$missing $package"
done
if [ -n "$missing" ]; then
    echo "venv: installing$missing into $folder"
    # shellcheck disable=SC2086
    if "$folder/bin/python" -m pip install -q --disable-pip-version-check --retries 2 --timeout 60 $missing; then
        for package in $missing; do echo "$package" >> "$stamp"; done
    else
        echo "venv: pip could not install:$missing" >&2
        exit 3
    fi
fi
