#!/usr/bin/env python3
"""Checks that an operator has the same name in descriptions, CPU kernels and CUDA kernels.

An operator described in src/op/def/F/x.c has its kernels in the folders F of src/cpu/kernels and src/cuda/kernels, in a
file named x, or x_something, or y where x is y_something, or in the folder's own file F/F.c (F/F.cu):

    src/op/def/norm/batch_norm_parts.c
    src/cpu/kernels/norm/batch_norm_parts.c     the same name
    src/cuda/kernels/norm/batch_norm.cu         the name without "_parts": one file for two descriptions

A kernel whose name begins with a star is attached to every operator that has a rule, in any folder.

A folder of kernels must also be a folder of src/op/def.  And a pass listed in
src/pass/pipeline.c is one function in one file that has the name of the pass: src/pass/NAME.c.

The tables are read as the compiler sees them, because X-macros generate many of their entries: the C preprocessor
expands all files of a side in one run.  System headers and generated ones are replaced by empty files, so nothing needs to be
built, and the CUDA side needs no CUDA.

    tools/check_families.py [ROOT]      prints each violation, exits 1 if there was one; CC names the compiler (cc)

SPDX-License-Identifier: Apache-2.0
"""
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

DEFINITIONS = "src/op/def"
KERNELS = {"src/cpu/kernels": "*.c", "src/cuda/kernels": "*.cu"}
STRING = r'"((?:[^"\\]|\\.)*)"'
FIRST_NAME = re.compile(r"\{\s*(?:\.(?:name|op)\s*=\s*)?((?:%s\s*)+)" % STRING)


def stub_headers(root, stubs):
    """An empty file for every header that is included somewhere but is not a file of the tree."""
    include = re.compile(r'^\s*#\s*include\s*[<"]([^">]+)[>"]', re.M)
    for top in ("src", "include"):
        for path in (root / top).rglob("*"):
            if path.suffix not in (".c", ".h", ".cu", ".cuh", ".inc"):
                continue
            for name in include.findall(path.read_text()):
                places = (path.parent, root / "src", root / "include")
                if not any((place / name).exists() for place in places):
                    stub = stubs / name
                    stub.parent.mkdir(parents=True, exist_ok=True)
                    stub.touch()


def preprocess(root, stubs, files):
    """The text of `files` with all macros expanded; lines '# 12 "file"' say where it comes from."""
    command = shlex.split(os.environ.get("CC", "cc")) + [
        "-E", "-x", "c", "-nostdinc", "-w", "-D__CUDACC__", "-DMX_LEVEL=generic",
        "-Isrc", "-Iinclude", "-I" + str(stubs)]  # fmt: skip
    done = subprocess.run(command + [str(f) for f in files], cwd=root, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"families: {command[0]} could not preprocess the tables:\n{done.stderr}")
    return done.stdout


def rows_of(text, start):
    """The texts of the entries {...} of the list whose brace opens at text[start]."""
    depth, row, token = 0, start, re.compile(r'"(?:[^"\\]|\\.)*"|[{}]')
    for match in token.finditer(text, start):
        if match[0] == "{":
            depth += 1
            row = match.start() if depth == 2 else row
        elif match[0] == "}":
            depth -= 1
            if depth == 1:
                yield text[row : match.end()]
            elif depth == 0:
                return


def tables(root, stubs, folder, pattern, mark):
    """(file, [operator names]) for every table that begins with `mark` in the files of a side."""
    files = sorted(p.relative_to(root) for p in (root / folder).rglob(pattern))
    if not files:
        return
    text = preprocess(root, stubs, files)
    places = re.compile(r'^# \d+ "([^"]*)".*$|%s\w*\s*\[\s*\]\s*=\s*\{' % mark, re.M)
    file = None
    for match in places.finditer(text):
        if match[1] is not None:
            file = match[1]
            continue
        names = []
        for row in rows_of(text, match.end() - 1):
            row = re.sub(r"^# .*$", "", row, flags=re.M)
            name = FIRST_NAME.match(row)
            if name:
                names.append("".join(re.findall(STRING, name[1])))
        yield Path(file), names


def fits(described, kernel):
    """Whether the file `kernel` may have kernels of an operator described in the file `described`."""
    if described.parent.name != kernel.parent.name:
        return False
    x, y = described.stem, kernel.stem
    return y == x or y.startswith(x + "_") or x.startswith(y + "_") or y == kernel.parent.name


def check_operators(root, stubs, offences):
    described = {}
    for file, names in tables(root, stubs, DEFINITIONS, "*.c", "mx_family_"):
        described.update((name, file) for name in names)
    rows = 0
    for side, pattern in KERNELS.items():
        mark = "mx_%s_kernels_" % side.split("/")[1]
        for file, names in tables(root, stubs, side, pattern, mark):
            for name in names:
                rows += 1
                if name.startswith("*"):  # of all operators that have some rule (op/formula/movement.h), in any folder
                    continue
                if name not in described:
                    offences.append(f"{file}: a kernel of {name}, which no file in {DEFINITIONS} describes")
                elif not fits(described[name], file):
                    offences.append(f"{file}: a kernel of {name}, which {described[name]} describes")
        for folder in sorted(p for p in (root / side).iterdir() if p.is_dir()):
            if not (root / DEFINITIONS / folder.name).is_dir():
                offences.append(f"{side}/{folder.name}: a folder that {DEFINITIONS} does not have")
    if not described or not rows:
        offences.append(f"found {len(described)} descriptions and {rows} kernels; is this checker out of date?")
    return len(described), rows


def check_passes(root, offences):
    passes = re.findall(r'\{"(\w+)", (mx_pass_\w+)\b', (root / "src/pass/pipeline.c").read_text())
    for name, function in passes:
        path = root / "src/pass" / (name + ".c")
        if function != "mx_pass_" + name:
            offences.append(f"src/pass/pipeline.c: pass {name} is the function {function}, not mx_pass_{name}")
        elif not path.exists() or not re.search(r"^mx_code %s\(" % function, path.read_text(), re.M):
            offences.append(f"src/pass/pipeline.c: pass {name} is not in src/pass/{name}.c")
    if not passes:
        offences.append("src/pass/pipeline.c lists no pass; is this checker out of date?")
    return len(passes)


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent).resolve()
    offences = []
    with tempfile.TemporaryDirectory() as stubs:
        stub_headers(root, Path(stubs))
        operators, kernels = check_operators(root, Path(stubs), offences)
    passes = check_passes(root, offences)
    for offence in offences:
        print(offence)
    if offences:
        sys.exit(f"families: {len(offences)} violation(s)")
    print(f"families: {kernels} kernels of {operators} operators are in the folders of their descriptions, {passes} passes in files of their names")


if __name__ == "__main__":
    main()
