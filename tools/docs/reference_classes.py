"""Pages of described classes: layers, losses, initializers, optimizers, schedules, metrics, transforms.

SPDX-License-Identifier: Apache-2.0
"""
import importlib
import re

from markup import code, prose, sentence, table

KINDS = (("LAYER", "layers", "Layers", ("gluon.nn", "gluon.rnn", "gluon.contrib.nn", "gluon.contrib.rnn", "gluon.contrib.cnn")),
         ("LAYER", "transforms", "Transforms", ("gluon.data.vision.transforms",)),
         ("LAYER", "models", "Models", ("gluon.model_zoo.vision",)),
         ("LOSS", "losses", "Losses", ("gluon.loss",)),
         ("OPTIMIZER", "optimizers", "Optimizers", ("optimizer",)),
         ("LR_SCHEDULER", "schedules", "Learning-rate schedules", ("lr_scheduler",)),
         ("METRIC", "metrics", "Metrics", ("metric",)),
         ("INITIALIZER", "initializers", "Initializers", ("init",)))
LEADS = {
    "layers": "Blocks with parameters. Input sizes that are left out are found at the first forward.",
    "transforms": "Blocks that prepare images; `Dataset.transform_first` applies one, `Compose` chains several.",
    "models": "Networks of the model zoo as classes; `gluon.model_zoo.vision.get_model` makes them by name.",
    "losses": "Blocks of a prediction and a label; the result has one number for each example.",
    "optimizers": "How a trainer changes weights. `gluon.Trainer` takes one by name with its options, or as an object.",
    "schedules": "Functions from the number of updates to the learning rate; an optimizer takes one as `lr_scheduler`.",
    "metrics": "Numbers that are collected over batches: `update(labels, predictions)`, then `get()`.",
    "initializers": "How weights begin. `net.initialize` takes one, and so does each parameter."}


def c_name(name):
    """mx_conv2d_transpose for Conv2DTranspose, as the generated header spells it."""
    text = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name) if not name.isupper() else name
    text = re.sub(r"(\d)_?D", r"\1d", text)
    return "mx_" + re.sub(r"(?<=[A-Z])(?=[A-Z][a-z])", "_", text).lower()


def _home(name, modules):
    """The Python class and its path, in the first module that has it."""
    for module in modules:
        try:
            found = getattr(importlib.import_module(f"mxnet.{module}"), name, None)
        except ImportError:
            continue
        if found is not None:
            return found, module
    return None, None


def _entry(row, modules):
    name, aliases, doc, options, _ = row
    cls, module = _home(name, modules)
    if cls is None:
        return None
    given = ", ".join(o[0] if o[2] else f"{o[0]}={o[1]!r}" for o in options)
    rows = [(f"`{o[0]}`", "required" if o[2] else f"`{o[1]}`", o[3]) for o in options]
    names = f"Also called {', '.join(f'`{a}`' for a in re.split('[ ,]+', aliases))}.\n" if aliases else ""
    return "\n".join([f"## {prose(name)}", "", sentence(doc), "", code("python", f"{module}.{name}({given})"), names,
                      table(("option", "default", "meaning"), rows)])


def write(folder):
    """Writes one page per kind; returns the names of the pages."""
    from mxnet import _core
    written = []
    for kind, page, title, modules in KINDS:
        entries = [_entry(row, modules) for row in sorted(_core.class_rows(getattr(_core, kind)), key=lambda r: r[0].lower())]
        entries = [e for e in entries if e]
        (folder / f"{page}.md").write_text(f"# {title}\n\n{LEADS[page]}\n\n" + "\n".join(entries))
        written.append(page)
    return written
