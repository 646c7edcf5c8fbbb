#!/bin/sh
# Checks the direction of includes.
#
#   base <- ndarray <- op <- graph <- pass <- exec <- gluon     a folder may include those to its left
#                      ^ cpu, cuda, null                        are beside op; no one else includes them
#             ndarray  <-  comm  <-  gluon                        messages between processes
#
# Public headers include only public headers; examples are users and do the same.  Includes are written from src/
# ("base/alloc.h") or public ("gluon/array.h"); a bare name is a file in the same folder.  Since src/gluon/ and
# include/gluon/ are both included as "gluon/...", no file name may be in both.
#
#   tools/check_layers.sh [ROOT]     prints each violation as file:line, exits 1 if there was one
#
# SPDX-License-Identifier: Apache-2.0
set -eu
cd "${1:-$(dirname "$0")/..}"

{
    for header in include/gluon/*.h include/mxnet/*.h; do [ -e "$header" ] && echo "public ${header#include/}"; done
    for header in src/gluon/*.h; do [ -e "$header" ] && echo "internal ${header#src/}"; done
    find src include examples -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.inc' | sort |
        xargs grep -nHE '^[[:space:]]*#[[:space:]]*include[[:space:]]*[<"]' | sed 's/:/ /'
} | awk '
BEGIN {
    count = split("base ndarray op graph pass exec gluon", order, " ")
    for (i = 1; i <= count; i++)
        for (j = 1; j <= i; j++) allowed[order[i], order[j]] = 1
    split("cpu cuda null", devices, " ")
    for (i in devices) {
        for (j = 1; j <= 3; j++) allowed[devices[i], order[j]] = 1
        allowed[devices[i], devices[i]] = 1
    }
    allowed["comm", "base"] = allowed["comm", "ndarray"] = allowed["comm", "comm"] = allowed["gluon", "comm"] = 1
    public["gluon.h"] = 1
}

function offence(text) { print where ": " text; bad++ }

function is_public(name) { return name in public || name ~ /^gluon\/[a-z_]+\.gen\.h$/ }

# Programs include public headers, and their own headers in the same folder.
function check_user(name, quoted) {
    if (((quoted && name ~ /\//) || name ~ /^gluon/) && !is_public(name))
        offence("\"" name "\" is not a public header")
}

function check_source(layer, name,    parts, target) {
    if (is_public(name) || name !~ /\//) return
    split(name, parts, "/")
    target = parts[1]
    if (!((layer, layer) in allowed)) offence("src/" layer " is not a layer; is tools/check_layers.sh out of date?")
    else if (!((layer, target) in allowed)) offence("layer " layer " must not include \"" name "\"")
}

$1 == "public" { public[$2] = 1; next }
$1 == "internal" {
    where = "src/" $2
    if ($2 in public) offence("has the same name as a public header")
    next
}
{
    file = $1
    line = $2
    sub(/:.*/, "", line)
    where = file ":" line
    quoted = ($0 ~ /include[ \t]*"/)
    name = $0
    sub(/^[^<"]*[<"]/, "", name)
    sub(/[>"].*/, "", name)
    lines++
    if (file ~ /^src\//) {
        split(file, path, "/")
        if (quoted || name ~ /^gluon/) check_source(path[2], name)
    } else
        check_user(name, quoted)
}
END {
    if (bad) { print bad " include(s) against the order of the layers"; exit 1 }
    print "layers: " lines " includes, all in order"
}'
