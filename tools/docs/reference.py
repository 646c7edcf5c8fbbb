"""Writes the reference: pages of operators, classes, C headers, Python modules, environment variables and the command.

Everything is read from the library, the package and the installed headers when the site is built; nothing is stored.

SPDX-License-Identifier: Apache-2.0
"""
import re
import subprocess

import reference_c
import reference_classes
import reference_data
import reference_ops
import reference_python
from markup import table, toctree

INDEX = """# Reference

Everything that has a name. These pages are made from the descriptions that the library itself works with, so they agree with
`help()`, with the headers and with the type stubs.
"""


def environment(root):
    """The table of flags (src/base/flags.h)."""
    text = (root / "src/base/flags.h").read_text()
    found = re.findall(r'X\(\w+,\s*"(\w+)",\s*(\w+),\s*("[^"]*"|\d+),\s*"([^"]*)"\)', text)
    rows = [(f"`{name}`", kind, "empty" if value == '""' else f"`{value}`", doc) for name, kind, value, doc in found]
    return ("# Environment variables\n\nAll of them are read once, when the library first needs one; `gluon doctor` shows the values in use. "
            "A value that is not a number where one is wanted keeps the default.\n\n" + table(("name", "type", "default", "meaning"), rows))


def command(prefix):
    """The gluon command, from its own help."""
    def output(*arguments):
        done = subprocess.run([prefix / "bin/gluon", *arguments], capture_output=True, text=True, timeout=60)
        return (done.stdout or done.stderr).rstrip()
    general = output("--help")
    parts = ["# The gluon command", "", "```text", general, "```"]
    for name in dict.fromkeys(re.findall(r"^  (?:gluon )?([a-z0-9]+) ", general, flags=re.M)):
        text = output(name, "--help")
        if text and "unknown" not in text:
            parts += ["", f"## gluon {name}", "", "```text", text, "```"]
    return "\n".join(parts) + "\n"


def write(folder, prefix, root):
    """Writes all pages into `folder`; `prefix`: where the library is installed."""
    folder.mkdir(parents=True)
    names = ["operators/index", *reference_classes.write(folder, prefix / "include"), "datasets", "c/index", "python/index",
             "environment", "command", "errors", "../guides/formats"]
    reference_ops.write(folder / "operators", root, prefix)
    reference_c.write(folder / "c", prefix / "include")
    reference_python.write(folder / "python")
    (folder / "datasets.md").write_text(reference_data.page(prefix / "include"))
    (folder / "environment.md").write_text(environment(root))
    (folder / "command.md").write_text(command(prefix))
    (folder / "errors.md").write_text(reference_c.errors(root))
    (folder / "index.md").write_text(INDEX + toctree(names))
