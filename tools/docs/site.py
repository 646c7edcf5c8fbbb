"""Builds the site: copies the pages, generates the reference and the notebooks, runs Sphinx.

    site.py [--out build/site] [--work build/docs] [--prefix build/book/prefix]

SPDX-License-Identifier: Apache-2.0
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import notebooks
from markup import table

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
RUN_FOLDERS = ("book", "guides")  # their listings are programs


def version():
    """0.1.0, from the header."""
    text = (ROOT / "include/gluon/base.h").read_text()
    return ".".join(re.search(rf"MX_VERSION_{part} (\d+)", text)[1] for part in ("MAJOR", "MINOR", "PATCH"))


def differences():
    """The intended differences from MXNet, from the list that the tests use."""
    sys.path.insert(0, str(ROOT / "tests/oracle"))
    import intended
    parts = []
    for title, entries in (("Behaviour", intended.BEHAVIOURS), ("Operators", intended.OPERATORS)):
        head = ("what", "here") if title != "Operators" else ("operator", "why it differs: MXNet's")
        rows = [(f"`{what}`" if " " not in what else what, why) for what, why in entries.items()]
        parts.append(f"### {title}\n\n{table(head, rows)}")
    return "\n".join(parts)


def stage(source):
    """The pages, with those that are kept elsewhere, and their notebooks."""
    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(ROOT / "docs", source, ignore=shutil.ignore_patterns("*.1", "__pycache__"))
    for name in ("CONTRIBUTING", "SECURITY"):
        if (ROOT / f"{name}.md").exists():
            (source / f"{name.lower()}.md").write_text(re.sub(r"\(docs/", "(", (ROOT / f"{name}.md").read_text()))
    if (source / "security.md").exists():
        questions = source / "guides/faq.md"
        questions.write_text(questions.read_text().replace("`SECURITY.md`", "[The security page](../security.md)"))
    guide = source / "guides/from_mxnet.md"
    guide.write_text(guide.read_text().replace("<!-- the list of differences -->", differences()))
    (source / "notebooks").mkdir()
    shutil.copyfile(source / "draw.py", source / "notebooks" / "draw.py")  # what notebooks need beside them
    shutil.copytree(ROOT / "examples/data", source / "notebooks" / "data")
    for folder in RUN_FOLDERS:
        for path in sorted((source / folder).glob("*.md")):
            text = notebooks.notebook(path.read_text())
            if text:
                (source / "notebooks" / f"{folder}_{path.stem}.ipynb").write_text(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default="build/site")
    parser.add_argument("--work", default="build/docs")
    parser.add_argument("--prefix", default="build/book/prefix", help="where the library is installed: headers and command")
    parser.add_argument("--no-reference", action="store_true", help="while writing: pages only")
    options = parser.parse_args()
    source = Path(options.work).resolve() / "source"
    stage(source)
    for old in (source.parent / "doctrees", Path(options.out)):  # pages that others link to may have come or gone
        shutil.rmtree(old, ignore_errors=True)
    if not options.no_reference:
        import reference
        reference.write(source / "reference", Path(options.prefix).resolve(), ROOT)
    environment = {**os.environ, "GLUON_VERSION": version(), "GLUON_DOCS_TOOLS": str(HERE)}
    command = [sys.executable, "-m", "sphinx", "-q", "-b", "html", "-j", "auto", "-d", str(source.parent / "doctrees"),
               str(source), options.out]
    if not options.no_reference:
        command.insert(3, "-W")
        command.insert(4, "--keep-going")
    return subprocess.run(command, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
