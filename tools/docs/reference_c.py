"""Pages of the C interface: one per header, with its comments as text.

SPDX-License-Identifier: Apache-2.0
"""
import re

from markup import code, prose, table, toctree

GENERATED = {"op.gen.h": "One function for each operator; [operators](../operators/index.md) describes them.",
             "nn.gen.h": "One constructor for each layer, loss, initializer, optimizer, schedule and metric; see "
                         "[layers](../layers.md), [losses](../losses.md), [optimizers](../optimizers.md)."}
FUNCTION = re.compile(r"^(?:MX_API|static inline)[^;{]*?\b(mx_\w+)\(", re.M)


def _words(comment):
    """The text of a comment without its marks."""
    lines = [re.sub(r"^\s*\*? ?", "", line) for line in re.sub(r"^/\*+|\*/$", "", comment.strip()).splitlines()]
    return "\n".join(lines).strip()


def _head(text):
    """(first sentence, the rest) of the comment at the top of a header"""
    comment = re.match(r"\s*/\*.*?\*/", text, re.S)
    words = re.sub(r"\s*SPDX-License-Identifier.*", "", _words(comment[0]))
    first, _, rest = words.partition("\n\n")
    return " ".join(first.split()), rest


def _essay(text):
    """Paragraphs of a comment; indented lines are code."""
    parts = []
    for block in re.split(r"\n\s*\n", text):
        if block.startswith("    "):
            parts.append(code("c", *[line[4:] for line in block.splitlines()]))
        elif block.strip():
            parts.append(prose(" ".join(block.split())) + "\n")
    return "\n".join(parts)


def _sections(text):
    """[(title, declarations)] by the ruled comments of a header"""
    body = re.sub(r"^\s*/\*.*?\*/", "", text, count=1, flags=re.S)
    body = re.sub(r"^#(ifndef|define|endif|include)\b(?![^\n]*\(|[^\n]* [^\n]* )[^\n]*\n", "", body, flags=re.M)
    pieces = re.split(r"^/\* -{3,} (.*?) -{2,} ?\*/$", body, flags=re.M)
    found = [("Declarations", pieces[0])] if pieces[0].strip() else []
    return found + list(zip((p.strip() for p in pieces[1::2]), pieces[2::2]))


def page(path):
    text = path.read_text()
    title, essay = _head(text)
    parts = [f"# {prose(path.name)}", "", prose(title), "", _essay(essay), code("c", f"#include <gluon/{path.name}>")]
    for name, body in _sections(text):
        body = re.sub(r"\n{3,}", "\n\n", body).strip("\n")
        if body.strip():
            heading = name[:1].upper() + name[1:]
            parts += [f"## {prose(heading)}", "", code("c", *body.splitlines()), ""]
    return "\n".join(parts), FUNCTION.findall(text)


def write(folder, include):
    folder.mkdir()
    rows, pages = [], []
    for path in sorted((include / "gluon").glob("*.h")):
        stem = path.name.replace(".", "_")
        if path.name in GENERATED:
            text, names = f"# {prose(path.name)}\n\n{GENERATED[path.name]}\n", []
        else:
            text, names = page(path)
        (folder / f"{stem}.md").write_text(text)
        pages.append(stem)
        rows += [(f"`{name}`", f"[{path.name}]({stem}.md)") for name in dict.fromkeys(names)]
    listed = "\n".join(f"| {name} | {where} |" for name, where in sorted(rows))
    (folder / "index.md").write_text(
        "# C interface\n\n`#include <gluon.h>` includes every header below. A function returns NULL or a code when it fails, the error "
        "stays until `mx_check` or `mx_error_clear`, and what a function returns belongs to the innermost scope: "
        "[the first hour in C](../../guides/first_hour_c.md).\n" + toctree(pages) +
        f"\n## All functions\n\n| function | header |\n|---|---|\n{listed}\n")


def errors(root):
    """The error codes of base.h beside Python's exceptions, which name them as the library's messages do."""
    codes = re.findall(r"^\s+MX_ERR_(\w+),\s*/\* (.*?) \*/", (root / "include/gluon/base.h").read_text(), flags=re.M)
    names = re.findall(r'"([^"]+)"', re.search(r'"no error",.*?\}', (root / "src/base/error.c").read_text(), re.S)[0])[1:]
    classes = dict(re.findall(r'^    "([^"]+)": (\w+),', (root / "python/mxnet/error.py").read_text(), flags=re.M))
    from mxnet import error
    rows = []
    for (code_name, meaning), name in zip(codes, names):
        bases = [base.__name__ for base in getattr(error, classes[name]).__mro__[1:] if base.__module__ == "builtins"]
        also = [base for base in bases if base not in ("RuntimeError", "Exception", "BaseException", "object", "LookupError")]
        rows.append((f"`MX_ERR_{code_name}`", f"`mx.error.{classes[name]}`", ", ".join(f"`{base}`" for base in also), meaning))
    return ("# Errors\n\nA call that fails leaves one record in its thread: a code and a sentence. In Python it becomes an exception. All of "
            "them are subclasses of `mx.MXNetError`, and also of what a Python programmer would expect, so either can be caught.\n\n" +
            table(("C", "Python", "also a", "when"), rows) + ERRORS)


ERRORS = """
In C the record stays until somebody looks at it; later calls do not replace it:

| function | |
|---|---|
| `mx_error_code()`, `mx_error_message()` | the first error of this thread since it was cleared |
| `mx_error_clear()` | forgets it: afterwards calls start afresh |
| `mx_check("name")` | prints `name: message` to standard error, clears it and returns 1; 0 if there was none |
| `mx_error_set(code, format, ...)` | for callbacks of yours that fail |

Messages are sentences for people: what they say may improve with any version. Programs look at the code, or at the class.
An exception that your own Python function raises inside of a callback arrives unchanged.
"""
