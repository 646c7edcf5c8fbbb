"""Pages of operators: one each, from its description, its samples and what it answers when asked.

SPDX-License-Identifier: Apache-2.0
"""
import json
import re
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

import examples
import examples_c
from gradients import gradient_text
from markup import ORPHAN, call, code, prose, sentence, table, wrapped

SPARSE = {"refused": "computes with dense copies", "zeros": "works on the stored values: zeros stay zeros"}
PRECISION = {"any": "in the type of its inputs", "float32": "in float32", "widest": "in the widest type of its inputs",
             "target": "in 16 bits", "data": "as its data"}
DIFFERENTIABLE = {"zero": "The gradient is zero everywhere.", "no": "It has no gradient; asking for one is an error."}


def described_in(root):
    """({operator: file}, names of those with a CUDA kernel), from the tables of the sources."""
    sys.path.insert(0, str(root / "tools"))
    import check_families as families
    with tempfile.TemporaryDirectory() as stubs:
        families.stub_headers(root, Path(stubs))
        files = {name: file for file, names in families.tables(root, Path(stubs), families.DEFINITIONS, "*.c", "mx_family_")
                 for name in names}
        cuda = {name for _, names in families.tables(root, Path(stubs), "src/cuda/kernels", "*.cu", "mx_cuda_kernels_")
                for name in names}
    return files, cuda


def operators():
    """{name: (operator object, description)} of all that have a public name."""
    from mxnet import _core
    found = {}
    for op in _core.operators().values():
        described = json.loads(op.description)
        found.setdefault(described["name"], (op, described))
    return found


def python_path(described):
    """nd.contrib.box_nms for _contrib_box_nms: the first public name that the package has, else the internal one."""
    import mxnet
    for name in (described["name"], *described.get("aliases", [])):
        path = "nd." + re.sub("^_(contrib|linalg|image|random)_", r"\1.", name)
        if "._" not in path and _has(mxnet, path):
            return path
    return f"nd._internal.{described['name']}"


def _has(owner, path):
    for part in path.split("."):
        owner = getattr(owner, part, None)
    return owner is not None


def _python_signature(op, described):
    from mxnet._describe import op_signature
    return f"{python_path(described)}{op_signature(op)}".replace(", *, out=None, name=None)", ", *, out=None)")


def _c_value(attribute):
    value = attribute.get("default")
    if attribute.get("required"):
        return "..."
    if value in ("True", "False"):
        return value.lower()
    if value in ("None", "()", None):
        return "none"
    if value.startswith("("):
        return f"MX_DIMS({value.strip('(), ')})"
    return f'"{value}"' if attribute["type"] in ("str", "choice", "enum", "dtype") else value


def _c_signature(described):
    required = [f"mx_array *{i['name']}" if not i.get("list") else f"mx_arrays {i['name']}" for i in described["inputs"]
                if not i.get("optional")]
    named = [f".{i['name']} = MX_NONE" for i in described["inputs"] if i.get("optional")]
    named += [f".{a['name']} = {_c_value(a)}" for a in described["attributes"]]
    result = "mx_arrays" if described.get("visible_outputs", 1) not in (1, "1") else "mx_array *"
    return wrapped(f"{result}{'' if result.endswith('*') else ' '}mx_{described['c_name']}(", [*required, *named, ".out = NULL"], ")")


def _all_results(described, header):
    """The C function that returns all results, where there is one."""
    name = f"mx_{described['c_name']}_all"
    return f"mx_arrays {name}(...)   /* the same arguments, all {len(described['outputs'])} results */" if f"#define {name}(" in header else None


def _attribute_rows(described):
    for a in described["attributes"]:
        kind = ", ".join(f"`{c}`" for c in a["choices"]) if a.get("choices") else a["type"] + (f" in {a['rule']}" if a.get("rule") else "")
        default = "required" if a.get("required") else f"`{a.get('default')}`"
        yield f"`{a['name']}`", kind, default, a.get("doc") or ""


def _input_rows(described):
    for i in described["inputs"]:
        notes = [word for word, on in (("optional", i.get("optional")), ("a list", i.get("list")), ("written to", i.get("mutated")),
                                       ("without a gradient", not i.get("differentiable", True))) if on]
        yield f"`{i['name']}`", ", ".join(notes) or "array"


def _facts(described, types, has_cuda):
    flags = described["flags"]
    rows = [("types", ", ".join(f"`{t}`" for t in types) if types else "see the inputs"),
            ("devices", "CPU, GPU" if has_cuda or "view" in flags else "CPU"),
            ("mixed precision", "computes " + PRECISION.get(described["precision"], described["precision"])),
            ("sparse arrays", SPARSE.get(described["sparse"], f"a rule of its own ({described['sparse']})"))]
    if described.get("methods"):
        rows.append(("method", ", ".join(f"`x.{m}(...)`" for m in described["methods"])))
    names = [n for n in described.get("aliases", []) if not n.startswith(("_sparse", "_np"))]
    if names:
        rows.append(("also called", ", ".join(f"`{n}`" for n in names)))
    if "random" in flags:
        rows.append(("random", "draws from the generator of its device: `mx.random.seed`"))
    return rows


def page(op, described, has_cuda, neighbours, header, example, in_c):
    name = described["name"]
    parts = [ORPHAN, f"# {prose(name)}", "", sentence(described["doc"]), "", code("python", *call(_python_signature(op, described))),
             code("c", *filter(None, [*_c_signature(described), _all_results(described, header)]))]
    if example.lines:
        parts += ["## Example", "", code("python", *example.lines), code("output", *example.output)]
        parts += [code("c", *in_c[0]), code("output", *in_c[1])] if in_c else []
    parts += ["## Inputs", "", table(("name", ""), _input_rows(described)) or "None.\n"]
    if described["attributes"]:
        parts += ["## Attributes", "", table(("name", "type", "default", "meaning"), list(_attribute_rows(described)))]
    outputs = described.get("outputs") or ["output"]
    parts += ["## Results", "", ", ".join(f"`{o}`" for o in outputs) + "\n"]
    if example.shapes:
        parts += [table(("shapes of the inputs", "attributes", "shape of the result"), example.shapes)]
    parts += ["## Gradient", "", DIFFERENTIABLE.get(described["differentiable"]) or gradient_text(op, described), ""]
    parts += ["## Types and devices", "", table(("", ""), _facts(described, example.types, has_cuda))]
    if neighbours:
        parts += ["## See also", "", ", ".join(f"[{prose(n)}]({n}.md)" for n in neighbours) + "\n"]
    return "\n".join(parts)


def write(folder, root, prefix):
    folder.mkdir()
    header = (prefix / "include/gluon/op.gen.h").read_text()
    files, cuda = described_in(root)
    found = operators()
    shown = {name: examples.example(op, described, python_path(described)) for name, (op, described) in found.items()}
    in_c = examples_c.examples(shown, {name: described for name, (_, described) in found.items()}, prefix)
    families = defaultdict(list)
    by_file = defaultdict(list)
    for name in found:
        families[files[name].parent.name if name in files else "other"].append(name)
        by_file[files.get(name)].append(name)
    moves = any(name.startswith("*") for name in cuda)  # kernels of every operator that has a rule
    for name, (op, described) in found.items():
        near = [n for n in by_file[files.get(name)] if n != name][:12]
        has_cuda = name in cuda or (moves and files.get(name) and files[name].parent.name in ("movement", "create"))
        (folder / f"{name}.md").write_text(page(op, described, has_cuda, near, header, shown[name], in_c.get(name)))
    parts = [f"# Operators\n\n{len(found)} operators by family. In Python they are functions of `mx.nd` and `mx.sym`, in C functions of "
             "`<gluon.h>`; inputs come first, everything else has a name and a default.\n"]
    for family in sorted(families):
        lines = "\n".join(f"| [{prose(n)}]({n}.md) | {prose(found[n][1]['doc'].split('; ')[0]).replace('|', chr(92) + '|')} |"
                          for n in sorted(families[family], key=lambda n: n.strip("_").lower()))
        parts.append(f"## {family}\n\n| operator | what it computes |\n|---|---|\n{lines}\n")
    rows = [f"| {prose(short)} | [{prose(name)}]({name}.md) |" for short, name in sorted(all_names(found).items(), key=lambda i: i[0].lower())]
    parts.append("## All names\n\nAs functions of `mx.nd` and `mx.sym`, of their submodules and as methods.\n\n| name | operator |\n|---|---|\n" +
                 "\n".join(rows))
    (folder / "index.md").write_text("\n".join(parts) + "\n")


def all_names(found):
    """{name in a module: operator}: its own, its aliases, those without the prefix of a submodule."""
    names = {}
    for name, (_, described) in found.items():
        for one in (name, *described.get("aliases", []), *described.get("methods", [])):
            for short in (one, re.sub("^_(contrib|linalg|image|random|sparse|npx)_", "", one)):
                if not short.startswith("_"):
                    names.setdefault(short, name)
    return names
