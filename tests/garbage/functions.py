"""Writes calls of every public C function with generated arguments: one C function per function of the headers.

    python functions.py OUTPUT HEADER...

Arguments come from arguments.c, chosen by their types; structs are filled field by field, callbacks are stubs of their type.  A
type that is not known here stops the build, so no public function is left out except for those in LEFT_OUT.
SPDX-License-Identifier: Apache-2.0
"""
import re
import sys

# Functions that cannot be called with anything: what they get must be what another call returned.
LEFT_OUT = {
    "mx_keep": "takes any object; every call needs its release",
    "mx_release": "a release too many frees what others use",
    "mx_scope_close": "the counterpart of mx_scope_open()",
    "mx_scope_return": "the counterpart of mx_scope_open()",
    "mx_error_set": "its arguments follow from the format",
    "mx_mode_leave": "the counterpart of mx_mode_enter()",
    "mx_naming_enter": "the block must outlive its mx_naming_leave()",
    "mx_naming_leave": "the counterpart of mx_naming_enter()",
    "mx_epoch_begin": "it needs its mx_epoch_end()",
    "mx_epoch_next": "the counterpart of mx_epoch_begin()",
    "mx_epoch_end": "the counterpart of mx_epoch_begin()",
    "mx_symbol_names_leave": "the counterpart of mx_symbol_names_enter()",
    "mx_symbol_attrs_leave": "the counterpart of mx_symbol_attrs_enter()",
}
# Questions that have an answer for anything.
LOOKS = {"mx_is_number", "mx_stype_of"}
# Objects that know their kind, then those that are tables of the library.
OBJECTS = """array array_dict block comm comm_work dataset executor initializer kvstore loader loss_scaler lr_scheduler metric
    optimizer optimizer_state parameter params record_index record_reader record_writer sampler summary_writer symbol tokenizer
    train_step trainer updater""".split()
TABLES = ["op", "class"]
NUMBERS = {"int": "garbage_int", "int32_t": "garbage_int", "int64_t": "garbage_int64", "uint64_t": "garbage_int64",
           "uint32_t": "garbage_int", "size_t": "garbage_room", "double": "garbage_double", "float": "garbage_double",
           "bool": "garbage_bool", "char": "garbage_bool"}
VALUES = {"mx_dims": "garbage_dims", "mx_floats": "garbage_floats", "mx_context": "garbage_context", "mx_arrays": "garbage_arrays",
          "const char *": "garbage_text", "FILE *": "garbage_stream", "struct DLManagedTensor *": "garbage_tensor",
          "struct DLManagedTensorVersioned *": "garbage_tensor_versioned"}
COUNTS = re.compile(r"^(count|n|n_\w+|capacity|room|size|bytes|length)$")  # of a list or of bytes: never more than there are
LIST = 8  # entries of lists; of structs there is one, except for those
LISTED = {"mx_key", "mx_amp_row", "mx_dims", "mx_context", "mx_arrays"}


def declarations(paths):
    for path in paths:
        with open(path) as file:
            text = re.sub(r"/\*.*?\*/", " ", file.read(), flags=re.S)
        text = re.sub(r"^#(.*\\\n)*.*$", "", re.sub(r"//.*", "", text), flags=re.M)
        yield path.endswith(".gen.h"), re.sub(r"\s+", " ", text)


def split(text):
    """The parts of a list, separated by commas that are not in brackets."""
    parts, depth = [""], 0
    for c in text:
        depth += (c in "([{") - (c in ")]}")
        if c == "," and not depth:
            parts.append("")
        else:
            parts[-1] += c
    return [part.strip() for part in parts if part.strip()]


def declared(text):
    """Type, name and number of elements of `const double *area[2]`."""
    found = re.match(r"(.*?)\(\*(\w+)\)(\(.*\))$", text)
    if found:
        return f"{found[1].strip()} (*){found[3]}", found[2], 0
    found = re.match(r"(.*?)\b(\w+)((?:\[\w+\])?)$", text)
    return re.sub(r"\s*\*\s*", " *", found[1]).replace("* *", "**").strip(), found[2], number(found[3].strip("[]"))


def number(text):
    return int(text) if text.isdigit() else 0


def fields(body):
    for statement in body.split(";"):
        statement = statement.strip()
        if not statement:
            continue
        inner = re.match(r"enum \{.*\} (\w+)$", statement)
        if inner:
            yield "int", inner[1], 0
            continue
        parts = split(statement)
        kind, name, length = declared(parts[0])
        yield kind, name, length
        base = kind.split("*")[0].strip()
        for part in parts[1:]:
            stars, name, size = re.match(r"((?:\*|const| )*)(\w+)(?:\[(\d+)\])?$", part).groups()
            yield (base + " " + stars.replace(" ", "").replace("*const*", "*const *")).strip(), name, int(size or 0)


class Headers:
    def __init__(self, paths):
        self.structs, self.enums, self.callbacks, self.functions, self.stubs = {}, set(), {}, [], []
        self.generated = set()  # structs that a macro makes: never NULL
        for generated, text in declarations(paths):
            for name, body in re.findall(r"typedef struct (\w+) \{([^{}]*(?:\{[^{}]*\}[^{}]*)*)\} \w+;", text):
                self.structs[name] = list(fields(body))
            for name, body in re.findall(r"(?<!typedef )struct (\w+) \{([^{}]*)\};", text):
                self.structs["struct " + name] = list(fields(body))
                self.generated.update({"struct " + name} if generated else ())
            self.enums.update(re.findall(r"typedef enum \w+ \{[^}]*\} (\w+);", text))
            for result, name, parameters in re.findall(r"typedef ([\w *]+?) ?\(\*(\w+)\)\(([^;]*)\);", text):
                self.callbacks[name] = f"{result} (*)({parameters})"
            for prototype in re.findall(r"MX_API ([^;]*);", text):
                found = re.match(r"(?!extern)(.*?)\b(\w+)\((.*)\)( MX_PRINTF.*)?$", prototype)
                if found:
                    self.functions.append((found[2], split(found[3]) if found[3] != "void" else []))

    def stub(self, kind):
        """A function of this type."""
        if kind not in self.stubs:
            self.stubs.append(kind)
        return f"stub_{self.stubs.index(kind)}"

    def stub_text(self, number, kind):
        result, parameters = re.match(r"(.*?) ?\(\*\)\((.*)\)$", kind).groups()
        names = [f"{a}" if a == "void" else a for a in split(parameters)]
        known = {"mx_code": "garbage_stub_code()", "mx_array *": "garbage_stub_array()", "mx_arrays": "garbage_stub_arrays()",
                 "double": "garbage_stub_double()", "int64_t": "0", "bool": "false"}
        value = "" if result == "void" else f"return {known.get(result, 'NULL')};"
        return f"static {result} stub_{number}({', '.join(names)}) {{ {value} }}"

    def value(self, kind, name, counts):
        """An expression for an argument or field."""
        if kind.startswith("const struct") or kind.startswith("struct"):
            plain = kind.removeprefix("const ")
        else:
            plain = kind.removeprefix("const ") if kind.endswith("*") and not kind.startswith("const char *") else kind
        if kind in self.callbacks or "(*)" in kind:
            return f"garbage_chance(d, 15) ? NULL : {self.stub(self.callbacks.get(kind, kind))}"
        if kind in VALUES or plain in VALUES:
            return f"{VALUES.get(kind) or VALUES[plain]}(d)"
        if kind in NUMBERS:
            return "garbage_count(d)" if counts and COUNTS.match(name) else f"{NUMBERS[kind]}(d)"
        if kind in self.enums or kind.startswith("enum "):
            return f"({kind})garbage_enum(d)"
        if plain in self.structs:
            return f"fill_{ident(plain)}(d)"
        found = re.match(r"mx_(\w+) \*$", plain)
        if found and found[1] in OBJECTS:
            return f"garbage_object(d, GARBAGE_{found[1].upper()})"
        if found and found[1] in TABLES:
            return f"garbage_{found[1]}(d)"
        if plain == "void *":
            return "NULL" if name == "attrs" else "garbage_buffer(d)"
        return self.list_value(kind)

    def list_value(self, kind):
        """Several values behind a pointer: a list of LIST of them that ends with zero."""
        found = re.match(r"(.*?) ?\*$", kind)
        if not found:
            raise SystemExit(f"functions.py: no arguments of type '{kind}': add it here and to arguments.c")
        if found[1] == "const void *":
            return "garbage_buffers(d)"
        self.value(entry_of(kind), "entry", False)  # known?
        return f"list_{ident(entry_of(kind))}(d)"


def entry_of(kind):
    """`mx_array *` of `mx_array *const *`."""
    inner = re.match(r"(.*?) ?\*$", kind)[1]
    if inner.startswith("const char *"):
        return "const char *"
    return inner.removesuffix("const").strip() if inner.endswith("*const") else inner.removeprefix("const ")


def ident(kind):
    return kind.replace("*", "p").replace(" ", "_")


def write(headers, out):
    bodies, lists, fills = [], {}, {}

    def counted(parts):
        """Is one of them a list or memory, whose size another one says?"""
        return any(name == "length" or re.match("list_|garbage_buffer", headers.value(kind, name, False)) for kind, name, _ in parts)

    def expression(kind, name, counts):
        text = headers.value(kind, name, counts)
        need(text, kind)
        return text

    def need(text, kind):
        for plain in headers.structs:
            if text == f"fill_{ident(plain)}(d)" and plain not in fills:
                fills[plain] = None
                counts = counted(headers.structs[plain])
                fills[plain] = [(n, size, expression(k, n, counts)) for k, n, size in headers.structs[plain]]
        if text.startswith("list_"):
            inner = entry_of(kind)
            if inner not in lists:
                lists[inner] = None
                lists[inner] = expression(inner, "entry", False)

    for number, (name, arguments) in enumerate(headers.functions):
        if name in LEFT_OUT:
            continue
        kinds = [declared(a) for a in arguments]
        counts = counted(kinds)
        values = [expression(kind, n, counts) for kind, n, _ in kinds]
        lines = [f"    {kind.replace('(*)', f'(*a{i})') if '(*)' in kind else f'{kind} a{i}'} = {value};"
                 for i, ((kind, _, _), value) in enumerate(zip(kinds, values))]
        if name in LOOKS:
            lines.append("    garbage_give_anew(false);")
        call = f"{name}({', '.join(f'a{i}' for i in range(len(values)))})"
        lines.append(f"    (void){call};")
        bodies.append((name, f"static void call_{name}(garbage_dice *d)\n{{\n" + "\n".join(lines) + "\n}"))
    missing = set(LEFT_OUT) - {name for name, _ in headers.functions}
    if missing:
        raise SystemExit(f"functions.py: there are no functions {sorted(missing)}")
    print("/* Made by tests/garbage/functions.py. */\n#include \"arguments.h\"\n#include \"functions.h\"\n", file=out)
    for number, kind in enumerate(headers.stubs):
        print(headers.stub_text(number, kind), file=out)
    for plain in fills:
        print(f"static {plain} fill_{ident(plain)}(garbage_dice *d);", file=out)
    for inner, value in lists.items():
        kind = inner + ("" if inner.endswith("*") else " ")
        length = 1 if inner in headers.structs and inner not in LISTED else LIST
        null = "" if inner in headers.generated else "    if (garbage_chance(d, 12))\n        return NULL;\n"
        print(f"static {kind}*list_{ident(inner)}(garbage_dice *d)\n{{\n{null}"
              f"    {kind}*list = garbage_memory({length + 1} * sizeof *list);\n    const bool bad = garbage_gave_bad();\n"
              f"    for (int i = 0; i < {length}; i++)\n        list[i] = {value};\n    garbage_give_anew(bad);\n    return list;\n}}",
              file=out)
    for plain, parts in fills.items():
        print(f"static {plain} fill_{ident(plain)}(garbage_dice *d)\n{{\n    {plain} s = {{0}};", file=out)
        for name, size, value in parts:
            for i in range(size or 1):
                print(f"    s.{name}{f'[{i}]' if size else ''} = {value};", file=out)
        print("    return s;\n}", file=out)
    for _, body in bodies:
        print(body, file=out)
    print("const garbage_function garbage_functions[] = {", file=out)
    for name, _ in bodies:
        print(f'    {{"{name}", call_{name}}},', file=out)
    print("    {NULL, NULL},\n};", file=out)


if __name__ == "__main__":
    found = Headers(sys.argv[2:])
    with open(sys.argv[1], "w") as file:
        write(found, file)
