"""What our pages need beyond Sphinx: formulas as MathML, figures inside the page, listings without the runner's words,
links to notebooks.

SPDX-License-Identifier: Apache-2.0
"""
import html
import re
import shutil
from pathlib import Path

import latex2mathml.converter
from docutils import nodes

import page as pages


# Browsers draw letters of other alphabets only if they are characters of their own: first letter -> first character.
ALPHABETS = {"bold": {"A": 0x1D400, "a": 0x1D41A}, "bold-italic": {"\u03b1": 0x1D736, "A": 0x1D468, "a": 0x1D482},
             "script": {"A": 0x1D4D0, "a": 0x1D4EA}}
FILE = re.compile(r"^(\s*)```(\w+) file=(\S+)[^\n]*$", re.M)
FUNCTIONS = re.compile(r"(<mi>(?:log|exp|sin|cos|tanh|max|min)</mi>)(?=<m[in])")


def _letter(match):
    """A letter of another alphabet as the character that it is."""
    letter = html.unescape(match[2])
    for first, code in ALPHABETS.get(match[1], {}).items():
        if 0 <= ord(letter) - ord(first) < 26:
            return f"<mi>{chr(code + ord(letter) - ord(first))}</mi>"
    return match[0]


def _mathml(node, display):
    text = latex2mathml.converter.convert(node.astext(), display=display)
    text = re.sub(r'<mi mathvariant="([a-z-]+)">(&#x\w+;|\w)</mi>', _letter, text)
    return FUNCTIONS.sub(r'\1<mspace width="0.17em"/>', text)


def visit_inline(translator, node):
    translator.body.append(_mathml(node, "inline"))
    raise nodes.SkipNode


def visit_block(translator, node):
    translator.body.append(_mathml(node, "block"))
    raise nodes.SkipNode


def read_source(app, name, source):
    """Makes tabs, shows names of files, removes quick settings, offers the page as a notebook if it has one."""
    text = FILE.sub(r'\1<div class="file-name">\3</div>\n\n\1```\2', pages.with_tabs(source[0]))
    text = pages.without_quick(text)
    notebook = Path(app.srcdir) / "notebooks" / (name.replace("/", "_") + ".ipynb")
    if notebook.exists():
        depth = "../" * name.count("/")
        link = f'\n\n<div class="notebook-link"><a href="{depth}notebooks/{notebook.name}" download>open as a notebook</a></div>\n'
        text = re.sub(r"\A(# .*)$", lambda m: m[1] + link, text, count=1, flags=re.M)
    source[0] = text


def inline_figures(app, document, name):
    """Puts drawings of ours into the page itself: they take its text colour."""
    for image in list(document.findall(nodes.image)):
        uri = image["uri"]
        path = Path(app.srcdir) / uri
        if not uri.endswith(".svg") or "figures/" not in uri or not path.exists():
            continue
        caption = f"<figcaption>{image.get('alt', '')}</figcaption>" if image.get("alt") else ""
        drawn = nodes.raw("", f'<figure class="drawing">{path.read_text()}{caption}</figure>', format="html")
        parent = image.parent
        if isinstance(parent, nodes.paragraph) and len(parent) == 1:
            parent.replace_self(drawn)
        else:
            image.replace_self(drawn)


def copy_notebooks(app, problem):
    source, target = Path(app.srcdir) / "notebooks", Path(app.outdir) / "notebooks"
    if problem is None and source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True)


def setup(app):
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    app.connect("source-read", read_source)
    app.connect("doctree-resolved", inline_figures)
    app.connect("build-finished", copy_notebooks)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
