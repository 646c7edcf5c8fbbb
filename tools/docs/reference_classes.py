"""Pages of described classes: layers, losses, initializers, optimizers, schedules, metrics, transforms.

SPDX-License-Identifier: Apache-2.0
"""
import importlib
import re

import class_examples
from markup import call, code, prose, sentence, table, wrapped

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


MADE = {"mx_block *": ("LAYER", "LOSS"), "mx_optimizer *": ("OPTIMIZER",), "mx_lr_scheduler *": ("LR_SCHEDULER",),
        "mx_metric *": ("METRIC",), "mx_initializer *": ("INITIALIZER",)}
ENTRY = re.compile(r"^/\* (\w+): .*?\*/\nstruct (mx_\w+)_args \{\n(.*?)^\};\n#define \w+\(\.\.\.\) .*?\{(.*?)\.positional_ = 0.*?"
                   r"^MX_API (\w+ \*)", re.M | re.S)


def constructors(header):
    """{(kind, class): lines of its C signature}, from the generated header."""
    found = {}
    for name, function, fields, defaults, made in ENTRY.findall(header.read_text()):
        required = re.findall(r"^    ([^;]+?); /\*.*$", fields.partition("char positional_;")[2], flags=re.M)
        defaults = re.sub(r"\{\.n = (-?\d+), \.d = \{(?:0 \+ )?([^}]*)\}\}", lambda m: "none" if m[1] == "-1" else f"MX_DIMS({m[2]})", defaults)
        named = [part for part in re.split(r", (?=\.)", defaults.strip(" ,")) if part.split(" = ")[0] not in
                 {"." + one.split()[-1].lstrip("*") for one in required}]
        named = [re.sub(r"\d\.\d{12,}(e-?\d+)?", lambda m: f"{float(m[0]):g}", part) for part in named if part]
        lines = wrapped(f"{made}{function}(", required + named, ")")
        found.update({(kind, name): lines for kind in MADE[made]})
    return found


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


SHORT = {"gluon.nn": "nn", "gluon.rnn": "rnn", "gluon.data.vision.transforms": "transforms", "optimizer": "mx.optimizer",
         "lr_scheduler": "mx.lr_scheduler", "metric": "mx.metric", "init": "mx.init"}


def _example(page, module, name, options):
    found = module and class_examples.example(page, f"{SHORT.get(module, module)}.{name}", options)
    return [code("python", *found[0]), code("output", *found[1])] if found else []


def _entry(row, modules, signature, anywhere, page):
    """The section of a class; one that Python does not have (anywhere) is for C alone."""
    name, aliases, doc, options, _ = row
    cls, module = _home(name, modules)
    if cls is None and not anywhere:
        return None
    given = ", ".join(o[0] if o[2] else f"{o[0]}={o[1]!r}" for o in options)
    rows = [(f"`{o[0]}`", "required" if o[2] else f"`{o[1]}`", o[3]) for o in options]
    names = f"Also called {', '.join(f'`{a}`' for a in re.split('[ ,]+', aliases))}.\n" if aliases else ""
    return "\n".join([f"## {prose(name)}", "", sentence(doc), "", code("python", *call(f"{module}.{name}({given})")) if cls else "",
                      code("c", *signature) if signature else "", names, table(("option", "default", "meaning"), rows),
                      *_example(page, module, name, options)])


def write(folder, include):
    """Writes one page per kind; returns the names of the pages."""
    from mxnet import _core
    written, c_functions = [], constructors(include / "gluon/nn.gen.h")
    for kind, page, title, modules in KINDS:
        others = [module for other, _, _, more in KINDS if other == kind for module in more]
        first = next(one for other, one, _, _ in KINDS if other == kind) == page
        entries = [_entry(row, modules, c_functions.get((kind, row[0])), first and _home(row[0], others)[0] is None, page)
                   for row in sorted(_core.class_rows(getattr(_core, kind)), key=lambda r: r[0].lower())]
        (folder / f"{page}.md").write_text(f"# {title}\n\n{LEADS[page]}\n\n" + "\n".join(e for e in entries if e))
        written.append(page)
    return written
