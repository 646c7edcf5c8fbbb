"""Examples of operators in C: the same calls as in Python, compiled and run as one program; those that print the same are shown.

SPDX-License-Identifier: Apache-2.0
"""
import ast
import re
import subprocess
import tempfile
from pathlib import Path

MARK = "\x1e"
FIELD = re.compile(r"^    ([\w ]+?\*?) ?\*?(\w+); ?(?:/\*.*)?$", re.M)


def _literal(values):
    """mx_array_from(...) for nested lists of numbers"""
    shape, flat = [], values
    while isinstance(flat, list):
        shape.append(len(flat))
        flat = flat[0] if flat else None

    def numbers(one):
        return [n for part in one for n in numbers(part)] if isinstance(one, list) else [one]
    text = ", ".join(f"{n:g}" if n == int(n) else f"{n:g}f" for n in numbers(values))
    return f"mx_array_from(MX_DIMS({', '.join(map(str, shape))}), MX_FLOAT32, (float[]){{{text}}})"


def _dims(text):
    return f"MX_DIMS({text.strip('() ,')})"


def _input(text):
    """The C expression of an input, from Python's."""
    if text.startswith("nd.array("):
        return _literal(ast.literal_eval(text[len("nd.array("):-1]))
    spread = re.fullmatch(r"nd\.linspace\((.*?), (.*?), (\d+)\)\.reshape\((\(.*\))\)", text)
    if spread:
        start, stop, count, shape = spread.groups()
        return f"mx_reshape(mx_linspace(.start = {start}, .stop = {stop}, .num = {count}), .shape = {_dims(shape)})"
    return None


class Header:
    """What the generated header says about operators: types of attributes, names of choices."""

    def __init__(self, path):
        self.text = path.read_text()
        self.choices = {}
        for name, attribute in re.findall(r"^#define (MX_\w+) \d+ /\* \.(\w+) \*/$", self.text, flags=re.M):
            self.choices.setdefault(attribute, []).append(name)

    def fields(self, function):
        """{name: type} of the arguments; {} if there is no such function"""
        found = re.search(rf"^struct {function}_args \{{\n(.*?)^\}};", self.text, flags=re.M | re.S)
        return {name: kind.strip() for kind, name in FIELD.findall(found[1])} if found else {}

    def value(self, function, attribute, kind, text):
        """The C text of an attribute's value; None where it has no simple form."""
        value = ast.literal_eval(text)
        if value is None:
            return None
        if kind == "mx_dims":
            return _dims(text) if isinstance(value, tuple) else f"MX_DIMS({value})"
        if kind == "mx_floats":
            return f"MX_FLOATS({text.strip('() ,')})" if isinstance(value, tuple) else f"MX_FLOATS({value:g})"
        if kind == "mx_dtype":
            return f"MX_{str(value).upper()}"
        if kind == "int" and isinstance(value, str):
            ends = f"_{re.sub('[^A-Za-z0-9]', '_', value).upper()}"
            named = [n for n in self.choices.get(attribute, []) if n.endswith(ends) and n.startswith("MX_" + function[3:].upper().replace("OP_", "")[:6])]
            return named[0] if len(named) == 1 else None
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, str):
            return f'"{value}"' if "char" in kind else None
        return f"{value:g}" if isinstance(value, (int, float)) and kind in ("int64_t", "double", "int") else None


def program(example, described, header):
    """Lines of C, or None: declarations of the inputs and a line that prints the results."""
    call, function = example.call, f"mx_{described['c_name']}"
    fields = header.fields(function)
    inputs = {name: _input(text) for name, text in call.texts.items()}
    values = {key: header.value(function, key, fields[key], text) for key, text in call.given if key in fields}
    if not fields or None in inputs.values() or None in values.values():
        return None
    optional = {i["name"] for i in described["inputs"] if i.get("optional")}
    single = [i["name"] for i in described["inputs"] if not i.get("list")]
    given = [f".{name} = {name}" if name in optional else name for name in single if name in inputs]
    listed = [name for name in inputs if name not in single]
    given += [f"MX_ARRAYS({', '.join(listed)})"] if listed else []
    arguments = ", ".join([*given, *(f".{key} = {text}" for key, text in values.items())])
    made = ["mx_random_seed(0);"] if "random" in described["flags"] else []
    made += [f"mx_array *{name} = {text};" for name, text in inputs.items()]
    if example.output[0] == "[":
        return [*made, f"mx_arrays all = {function}({arguments});",
                "for (int64_t i = 0; i < all.n; i++)", "    mx_array_print(all.v[i], stdout);"]
    first = ".v[0]" if fields.get("out") == "mx_arrays" else ""
    return [*made, f"mx_array_print({function}({arguments}){first}, stdout);"]


def arrays(output):
    """What C would print for a result that Python prints: a list has brackets and commas of its own."""
    text = "\n".join(output).strip()
    return text[1:-1].replace(">,\n", ">\n").strip() if output[0] == "[" else text


def _source(programs):
    """One program; each example runs in a process of its own, so that one that fails is only itself."""
    parts = ["#include <gluon.h>", "#include <stdio.h>", "#include <sys/wait.h>", "#include <unistd.h>"]
    for number, lines in enumerate(programs.values()):
        parts += [f"static void example_{number}(void)\n{{", *lines, "}"]
    table = ", ".join(f"example_{number}" for number in range(len(programs)))
    return "\n".join(parts) + f"""
int main(void)
{{
    static void (*const examples[])(void) = {{{table}}};
    for (unsigned i = 0; i < sizeof examples / sizeof *examples; i++) {{
        if (!fork()) {{
            examples[i]();
            fflush(stdout);
            _exit(0);
        }}
        wait(NULL);
        fputs("{MARK}", stdout);
        fflush(stdout);
    }}
    return 0;
}}
"""


def examples(found, described, prefix):
    """{operator: (lines, output)} for {operator: Example}: those whose C program prints what the Python program prints."""
    header = Header(prefix / "include/gluon/op.gen.h")
    programs = {name: program(one, described[name], header) for name, one in found.items() if one.call}
    printed = _run(programs, prefix)
    return {name: (programs[name], text.splitlines()) for name, text in printed.items() if text and text == arrays(found[name].output)}


def _run(programs, prefix):
    """{name: what it prints} for {name: lines}; programs that do not compile are left out."""
    programs = {name: lines for name, lines in programs.items() if lines}
    library = next(prefix.glob("lib*/libgluon.so"), None) or next(prefix.glob("lib*/*/libgluon.so"))
    with tempfile.TemporaryDirectory() as folder:
        source, binary = Path(folder) / "examples.c", Path(folder) / "examples"
        for _ in range(3):
            source.write_text(_source(programs))
            done = subprocess.run(["cc", "-std=gnu11", "-O0", "-Wall", "-Werror", f"-I{prefix}/include", str(source), "-o", str(binary),
                                   f"-L{library.parent}", "-lgluon", f"-Wl,-rpath,{library.parent}"], capture_output=True, text=True)
            if not done.returncode:
                break
            names = list(programs)
            wrong = {names[int(n)] for n in re.findall(r"In function .*?example_(\d+)\b", done.stderr)}
            if not wrong:
                raise RuntimeError(done.stderr[:2000])
            programs = {name: lines for name, lines in programs.items() if name not in wrong}
        ran = subprocess.run([str(binary)], capture_output=True, text=True, timeout=120)
    return dict(zip(programs, (text.strip() for text in ran.stdout.split(MARK))))
