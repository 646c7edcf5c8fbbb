#!/bin/sh
# Formats C and CUDA files by .clang-format, but lets three things keep the layout they were given by hand: macros (X-macro
# lists above all), lists in braces of several lines (initializers, enums) and one-line structs.
# Macros that clang-format cannot know are hidden from it: lines of instances (TILE(1) TILE(2)), UNROLL for (...), and
# names made by a macro (FN(tile) *t, which it would take for a product).
#
#   tools/format.sh [--check] [FILE...]     default: all our sources; --check only reports, exits 1 on a difference
#
# SPDX-License-Identifier: Apache-2.0
set -eu
cd "$(dirname "$0")/.."
check=false
if [ "${1:-}" = --check ]; then check=true; shift; fi
if [ $# = 0 ]; then
    # Names of our files have no spaces.
    set -- $(find src include cli python examples tests bench tools \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.inc' \) | sort)
fi
if ! command -v clang-format >/dev/null 2>&1; then
    echo "format: clang-format is not there (Debian package clang-format)" >&2
    exit 1
fi
formatted=$(mktemp)
trap 'rm -f "$formatted"' EXIT

# Puts marks around what keeps its layout and makes comments of what is hidden; `restore` undoes both.
protect='
# How many braces a line opens more than it closes, outside of strings and comments.
function depth_of(line) {
    gsub(/\\\\/, "", line)
    gsub(/\\"/, "", line)
    gsub(/"[^"]*"/, "", line)
    gsub(/\/\*[^*]*\*\//, "", line)
    gsub(/\/\/.*/, "", line)
    return gsub(/[{]/, "", line) - gsub(/[}]/, "", line)
}
function keeps(line, depth) {
    if (in_macro || open > 0) return 1
    if (line ~ /^[ \t]*#[ \t]*define/) return 1
    if (depth > 0 && line ~ /(= |\)|enum( [a-z_]+)? )[{]/) return 1
    return line ~ /^[ \t]*((static|const|typedef) )*(struct|union)[^;(]*[{].*;.*[}]/
}
{
    depth = depth_of($0)
    now = keeps($0, depth)
    if (now && !before) print "/* clang-format off */"
    if (!now && before) print "/* clang-format on */"
    line = $0
    if (!now && line ~ /^[A-Z][A-Z0-9_]*[(][^;]*[)]$/) line = "//KEEP " line
    else if (match(line, /^ *[A-Z][A-Z_]+ for [(]/)) {
        space = line
        sub(/[A-Z].*/, "", space)
        sub(/^ */, "", line)
        sub(/ for/, "*/ for", line)
        line = space "/*HIDE " line
    }
    print line
    in_macro = (in_macro || /^[ \t]*#[ \t]*define/) && /\\$/
    open = now && !in_macro && (open > 0 || depth > 0) ? open + depth : 0
    before = now
}
END { if (before) print "/* clang-format on */" }'

restore='
/^ *\/\* clang-format (on|off) \*\/$/ { next }
{
    sub(/^ *\/\/KEEP /, "")
    if (sub(/\/\*HIDE /, "")) sub(/\*\/ for/, " for")
    print
}'

bad=0
for file in "$@"; do
    awk "$protect" "$file" | sed -E 's/\b([A-Z_]+)\(([a-z_0-9]+)\)(\(| \*[a-z])/\1$\2$\3/g' |
        clang-format --assume-filename="$file.c" |
        sed -E 's/\b([A-Z_]+)\$([a-z_0-9]+)\$/\1(\2)/g' | awk "$restore" >"$formatted"
    cmp -s "$file" "$formatted" && continue
    if $check; then
        diff -u --label "$file" --label "$file (formatted)" "$file" "$formatted" || true
        bad=$((bad + 1))
    else
        cat "$formatted" >"$file"
        echo "formatted $file"
    fi
done
[ $bad = 0 ] || { echo "format: $bad file(s) differ; run make format" >&2; exit 1; }
