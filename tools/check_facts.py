#!/usr/bin/env python3
"""Checks that facts about operators are in their descriptions: no other file has a list of operator names.

    tools/check_facts.py [ROOT]     prints each list that it finds, exits 1 if there was one

A source file other than the descriptions (src/op/def, src/op/formula) and the kernels, which name the operators they
run, may not have more than MOST operator names as string literals.  Uses of single operators do not count:
MX_OP("dot"), mx_g1("square", x), mx_op_find("dot"), OPERATORS["dot"], and tests for one, mx_step_is(step, "dot"),
mx_gnode_is(node, "dot") and strcmp(name, "dot").

SPDX-License-Identifier: Apache-2.0
"""
import pathlib
import re
import sys

MOST = 6
DESCRIPTIONS = ("src/op/def/", "src/op/formula/", "src/cpu/kernels/", "src/cuda/kernels/")

# Files that may, and why.
EXCEPTIONS = {
    "src/gluon/def/": "descriptions of layers and optimizers: each names the operator it calls",
    "src/gluon/onnx/def/": "operators of ONNX: an entry pairs one with ours, its reader and its writer side by side",
    "python/core/number.c": "Python's own operators (+, <, **) and their functions, for arrays",
    "python/core/symbol_number.c": "the same for symbols",
}

USES = re.compile(r'\b(?:MX_OP|mx_g[123]|mx_op_find|OPERATORS)\s*[(\[]\s*"\w+"|'
                  r'\b(?:mx_step_is|mx_gnode_is|strcmp)\s*\([^()"]*(?:\([^()]*\)[^()"]*)*"\w+"')
WORDS = re.compile(r'"(\w+)"|\'(\w+)\'')


def operator_names(root):
    """Names of the operators in the descriptions, without those that are common words in any program."""
    names = set()
    for path in root.glob("src/op/def/*/*.c"):
        text = path.read_text()
        names |= set(re.findall(r'\.name = "(\w+)"', text)) | set(re.findall(r'\{(?:ROW|REGRESSION)\("(\w+)"', text))
    table = (root / "src/op/formula/pointwise.h").read_text()
    names |= set(re.findall(r"^    [ULZ]\((\w+),", table, re.M))
    for row in re.findall(r"^    [BCR]\((.*)", table, re.M):
        names |= set(re.findall(r'"(\w+)"', row))
    names |= set(re.findall(r'^    [OM]\(\w+, "(\w+)"', (root / "src/op/formula/optimizer.h").read_text(), re.M))
    return {name for name in names if not name.startswith("_np")} - PLAIN_WORDS


# Operators that share their names with options, methods and formats.
PLAIN_WORDS = set("abs add_n clip copy cos diag dot exp floor gamma log max mean min norm relu round sigmoid sign sin "
                  "slice softsign sort sqrt square stack sum take tan tanh tile where".split())


def without_comments(text, python):
    if python:
        text = re.sub(r'"""(?:[^"\\]|\\.|"(?!""))*"""', "", text)
        return re.sub(r"(?m)^\s*#.*$", "", text)
    return re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.S)


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent)
    names = operator_names(root)
    if len(names) < 400:
        print(f"check_facts: only {len(names)} operators were found; is this script out of date?")
        return 1
    bad = files = 0
    for folder in ("src", "cli", "python"):
        for path in sorted((root / folder).rglob("*")):
            name = path.relative_to(root).as_posix()
            if path.suffix not in (".c", ".h", ".cu", ".py") or name.startswith(DESCRIPTIONS):
                continue
            if any(name.startswith(known) for known in EXCEPTIONS):
                continue
            files += 1
            text = USES.sub("", without_comments(path.read_text(), path.suffix == ".py"))
            found = sorted({a or b for a, b in WORDS.findall(text)} & names)
            if len(found) > MOST:
                print(f"{name}: {len(found)} names of operators; facts about them belong in their descriptions: "
                      f"{' '.join(found)}")
                bad += 1
    if not bad:
        print(f"facts: {files} files, none has a list of the {len(names)} operators")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
