"""The page of data sets: Python's classes by what they are for, and the functions of C that make the same.

SPDX-License-Identifier: Apache-2.0
"""
import importlib
import inspect
import re

from markup import call, code, prose

PARTS = (("Data sets", ("gluon.data.dataset", "gluon.data.vision.datasets", "gluon.contrib.data.text")),
         ("Loader", ("gluon.data.dataloader",)),
         ("Orders of examples", ("gluon.data.sampler", "gluon.contrib.data.sampler")),
         ("Examples to batches", ("gluon.data.batchify",)),
         ("Iterators of the classic interface", ("io.io", "io.files", "io.records", "io.detection_records", "image.iterator",
                                                 "image.detection", "rnn.io")))
LEAD = """# Data sets

A data set has a length and numbered examples; a sampler says in which order, a loader makes batches. Sets of images look for their files
in Debian's folders and in `$MXNET_HOME/datasets`, and are downloaded only where they are not found there. [Extending](../guides/extending.md)
shows how to write one.
"""
C_PART = re.compile(r"^((?:/\*(?:(?!\*/).)*\*/\n)?)"
                    r"(#define mx_\w+\(\.\.\.\)|MX_API (?:mx_dataset|mx_sampler|mx_loader) \*mx_\w+\([^;]*;)", re.M | re.S)


def _classes(module):
    for name, value in sorted(vars(module).items(), key=lambda item: item[0].lower()):
        if inspect.isclass(value) and not name.startswith("_") and value.__module__ == module.__name__:
            yield name, value


def _entry(module, name, cls):
    try:
        signature = str(inspect.signature(cls))
    except (TypeError, ValueError):
        signature = "(...)"
    doc = inspect.cleandoc(cls.__doc__ or "").split("\n\n")[0].replace("\n", " ")
    return "\n".join([f"### {prose(name)}", "", prose(doc), "", code("python", *call(f"{module}.{name}{signature}")),
                      f"[All of its methods](python/mxnet.{module}.md)\n"])


def _in_c(header):
    """Declarations of what makes data sets, samplers and loaders, with their comments."""
    lines = []
    for comment, declaration in C_PART.findall(header.read_text()):
        if "make" not in declaration:
            lines += [*comment.strip().splitlines(), *declaration.splitlines(), ""]
    return code("c", *lines[:-1]) + "\nEverything else about them: [data.h](c/data_h.md), [recordio.h](c/recordio_h.md), [image.h](c/image_h.md).\n"


def page(include):
    parts = [LEAD]
    for title, modules in PARTS:
        entries = [_entry(module, name, cls) for module in modules
                   for name, cls in _classes(importlib.import_module(f"mxnet.{module}"))]
        parts += [f"## {title}\n", *entries]
    return "\n".join([*parts, "## In C\n", _in_c(include / "gluon/data.h")])
