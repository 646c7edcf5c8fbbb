"""Whether every public name of C and of Python has a place in the built reference.

    names.py build/site PREFIX     PREFIX: where the library is installed

A name of Python has a heading of its own, or is a row of an index that leads to its page; a name of C is part of a
declaration on the page of its header, or of the signature of an operator or a class.

SPDX-License-Identifier: Apache-2.0
"""
import html
import inspect
import re
import sys
from pathlib import Path

import reference_python

C_NAME = re.compile(r"\b(?:mx|MX)_[A-Za-z0-9_]+\b")
GENERATED = ("op.gen.h", "nn.gen.h", "np.gen.h")


# ---- what there is -----------------------------------------------------------------------------------------------------

def c_names(include):
    """Functions, macros, types and constants of the installed headers; a last underscore marks what is not for users."""
    found = set()
    for path in [include / "gluon.h", *(include / "gluon").glob("*.h")]:
        text = re.sub(r"/\*.*?\*/|//[^\n]*", "", path.read_text(), flags=re.S)
        if path.name in GENERATED:
            found.update(re.findall(r"^#define (mx_\w+)\(", text, flags=re.M))
            continue
        found.update(re.findall(r"^#define ((?:mx|MX)_\w+)", text, flags=re.M))
        found.update(re.findall(r"^(?:MX_API|static inline)[^;{]*?\b(mx_\w+)\(", text, flags=re.M))
        found.update(re.findall(r"^(?:typedef )?(?:struct|enum) (mx_\w+)", text, flags=re.M))
        found.update(re.findall(r"^\s+(MX_[A-Z0-9_]+)\s*(?:=|,|$)", text, flags=re.M))
    return {name for name in found if not name.endswith("_")}


def python_names():
    """{qualified name: object} of the classes and functions that modules offer."""
    found = {}
    for module_name, module in reference_python.modules().items():
        for name, value in vars(module).items():
            if not name.startswith("_") and not inspect.ismodule(value) and _is_ours(value):
                found[f"{module_name}.{name}"] = value
    return found


def _is_ours(value):
    home = getattr(value, "__module__", None) or ""
    return (inspect.isclass(value) or inspect.isroutine(value) or callable(value)) and home.split(".")[0] in ("mxnet", "")


# ---- what the site has ---------------------------------------------------------------------------------------------------

def _plain(text):
    return html.unescape(re.sub(r"<[^>]+>", "", text)).strip().rstrip("¶#").strip()


def site_names(site):
    """(names of headings and index rows, names in declarations)"""
    headings, declared = set(), set()
    for path in (site / "reference").rglob("*.html"):
        text = path.read_text(errors="replace")
        headings.update(_plain(one) for one in re.findall(r"<h[1-4][^>]*>(.*?)</h[1-4]>", text, flags=re.S))
        headings.update(_plain(one) for one in re.findall(r"<tr[^>]*><td>(.*?)</td>", text, flags=re.S))
        for block in re.findall(r"<pre>(.*?)</pre>", text, flags=re.S):
            declared.update(C_NAME.findall(_plain(block)))
    return headings, declared


def missing(site, include):
    """(names of C without a page, names of Python without a page, how many names there are)"""
    headings, declared = site_names(site)
    c, python = c_names(include), python_names()
    lost = sorted(name for name in python if name.rsplit(".", 1)[1] not in headings)
    return sorted(c - declared - headings), lost, (len(c), len(python))


def main():
    site, prefix = Path(sys.argv[1]), Path(sys.argv[2])
    c, python, (count_c, count_python) = missing(site, prefix / "include")
    for language, names in (("C", c), ("Python", python)):
        if names:
            print(f"names: {len(names)} names of {language} have no page: {', '.join(names[:40])}")
    if not c and not python:
        print(f"names: {count_c} names of C and {count_python} of Python, each has a page")
    return bool(c or python)


if __name__ == "__main__":
    sys.exit(main())
