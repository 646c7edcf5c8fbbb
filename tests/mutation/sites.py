"""Where a C file can be broken in a small way: sites(text) -> [(kind, start, end, function that writes the replacement)].

The sources are formatted by clang-format, which is what makes a tokenizer enough: binary operators have spaces around them and
unary ones have not, the braces of a function are alone in the first column.

SPDX-License-Identifier: Apache-2.0
"""
import re

TOKEN = re.compile(r"""
    (?P<skip>\s+|/\*.*?\*/|//[^\n]*|\\\n)
  | (?P<directive>(?<=\n)[ \t]*\#(?:\\\n|[^\n])*)
  | (?P<string>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')
  | (?P<number>(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)[uUlLfF]*)
  | (?P<name>[A-Za-z_]\w*)
  | (?P<op><<=|>>=|\.\.\.|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|[-+*/%&|^~!<>=?:;,.(){}\[\]])
""", re.S | re.X)

SWAPS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||", "||": "&&",
         "+": "-", "-": "+", "*": "+", "/": "*", "%": "*"}
KINDS = {**dict.fromkeys(("<", "<=", ">", ">=", "==", "!="), "relation"), **dict.fromkeys(("&&", "||"), "logic"),
         **dict.fromkeys("+-*/%", "arithmetic")}
LEVELS = [("*", "/", "%"), ("+", "-"), ("<<", ">>"), ("<", "<=", ">", ">="), ("==", "!="), ("&",), ("^",), ("|",), ("&&",), ("||",)]
LEVEL = {op: level for level, ops in enumerate(LEVELS) for op in ops}
ASSIGN = {"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="}
STOPS = ASSIGN | {"?", ":", ";", ",", "{", "}"}
WORDS = {"return", "case", "else", "do", "goto", "sizeof"}
CONTROL = {"if", "while", "for", "switch", "return", "sizeof", "else", "do", "case", "default", "goto", "break", "continue", "static",
           "const", "struct", "union", "enum", "int", "char", "float", "double", "long", "unsigned", "void", "bool", "typedef", "extern"}
OPEN, CLOSE = {"(": ")", "[": "]", "{": "}"}, {")": "(", "]": "[", "}": "{"}
# Code of other builds and of other instruction levels than the one that is mutated, generic.
ELSEWHERE = re.compile(r"NEON|CUDA|AVX|clang|aarch|SANITIZE|MX_CHECKED|BYTES == (32|64)|BIG_ENDIAN|has_feature|REGISTERS == 32|F16C|FMA|LANES|HALF")


class Token:
    __slots__ = ("kind", "text", "start", "end", "pair", "binary")

    def __init__(self, kind, text, start, end):
        self.kind, self.text, self.start, self.end, self.pair, self.binary = kind, text, start, end, None, False


def tokens_of(text, begin, end):
    """Tokens of a function's body; None if it cannot be read.  Preprocessor lines are tokens of their own."""
    found, at = [], begin
    while at < end:
        match = TOKEN.match(text, at)
        if not match:
            return None
        if match.lastgroup != "skip":
            found.append(Token(match.lastgroup, match.group(), match.start(), match.end()))
        at = match.end()
    stack = []
    for i, token in enumerate(found):
        if token.kind == "op" and token.text in OPEN:
            stack.append(i)
        elif token.kind == "op" and token.text in CLOSE:
            if not stack or found[stack[-1]].text != CLOSE[token.text]:
                return None
            token.pair = stack.pop()
            found[token.pair].pair = i
        token.binary = (token.kind == "op" and token.text in LEVEL and text[token.start - 1].isspace() and
                        text[token.end:token.end + 1].isspace() and i > 0 and
                        (found[i - 1].kind in ("name", "number", "string") or found[i - 1].text in (")", "]")))
    return found if not stack else None


def bodies(text):
    """The ranges of the functions' bodies."""
    for match in re.finditer(r"^\{\n.*?^\}", text, re.S | re.M):
        yield match.start(), match.end()
    for match in re.finditer(r"^[a-z][^;={}\n]*\)\n?(\{ .*? \})$", text, re.M):
        yield match.start(1), match.end(1)


def elsewhere(text):
    """The ranges of conditional code that is not compiled here."""
    stack, ranges = [], []
    for match in re.finditer(r"^[ \t]*#[ \t]*(if|ifdef|ifndef|elif|else|endif)\b(?:\\\n|[^\n])*", text, re.M):
        word = match.group(1)
        if word in ("elif", "else", "endif") and stack:
            start, hidden = stack.pop()
            if hidden:
                ranges.append((start, match.start()))
        if word not in ("endif", "else"):
            stack.append((match.end(), bool(ELSEWHERE.search(match.group()))))
        elif word == "else":
            stack.append((match.end(), False))
    return ranges


def left_of(tokens, i, level):
    """The first token of the operand that ends before operator i."""
    j = i - 1
    while j >= 0:
        t = tokens[j]
        if t.text in CLOSE and t.kind == "op":
            j = t.pair - 1
            if tokens[t.pair].text == "{":
                return None
            continue
        if t.kind == "directive":
            return None
        if t.kind == "op" and (t.text in OPEN or t.text in STOPS) or t.text in WORDS or (t.binary and LEVEL[t.text] > level):
            break
        if j and tokens[j - 1].text == ")" and t.kind == "name" and tokens[tokens[j - 1].pair - 1].text in ("if", "for", "while"):
            return None
        j -= 1
    return j + 1


def right_of(tokens, i, level):
    """The last token of the operand that begins after operator i."""
    j = i + 1
    while j < len(tokens):
        t = tokens[j]
        if t.kind == "op" and t.text in OPEN:
            j = t.pair + 1
            continue
        if t.kind == "directive":
            return None
        if t.kind == "op" and (t.text in CLOSE or t.text in STOPS) or (t.binary and LEVEL[t.text] >= level):
            break
        j += 1
    return j - 1


def choice(broken, right):
    return lambda n: f"(MX_MUTANT({n}) ? {broken} : {right})"


def operator_sites(text, tokens):
    for i, token in enumerate(tokens):
        if not token.binary or token.text not in SWAPS:
            continue
        first, last = left_of(tokens, i, LEVEL[token.text]), right_of(tokens, i, LEVEL[token.text])
        if first is None or last is None or first >= i or last <= i:
            continue
        start, end = tokens[first].start, tokens[last].end
        left, right = text[start:token.start].rstrip(), text[token.end:end].lstrip()
        broken = f"(({left}) {SWAPS[token.text]} ({right}))"
        yield KINDS[token.text], start, end, choice(broken, f"({text[start:end]})")


def constant_sites(text, tokens, random):
    for i, token in enumerate(tokens):
        if token.kind != "number" or tokens[i - 1].text in ("case", "{"):
            continue
        by = "+ 1" if random.random() < 0.5 or token.text in ("0", "0u") else "- 1"
        yield "constant", token.start, token.end, choice(f"({token.text} {by})", token.text)


def condition_sites(text, tokens):
    for i, token in enumerate(tokens):
        if token.text not in ("if", "while") or tokens[i + 1].text != "(":
            continue
        start, end = tokens[i + 1].end, tokens[tokens[i + 1].pair].start
        yield "negation", start, end, choice(f"!({text[start:end]})", f"({text[start:end]})")


def statement_sites(text, tokens):
    """Assignments and calls that begin a line."""
    for i, token in enumerate(tokens[:-1]):
        if token.kind != "name" or token.text in CONTROL or not i or text[text.rfind("\n", 0, token.start) + 1:token.start].strip():
            continue
        before = tokens[i - 1]
        body = before.text == ")" and tokens[before.pair - 1].text in ("if", "while", "for")
        if before.text not in (";", "{", "}", "else") and not body or tokens[i + 1].text not in ("(", "=", "[", "->", ".", "+=", "-=", "*=", "/="):
            continue
        j, assigned = i + 1, None
        while tokens[j].text not in (";", "}"):
            if tokens[j].kind == "directive":
                break
            if assigned is None and tokens[j].text in ASSIGN:
                assigned = j
            j = tokens[j].pair + 1 if tokens[j].text in OPEN else j + 1
        if tokens[j].text != ";" or (assigned is None and tokens[j - 1].text != ")"):
            continue
        start, end = token.start, tokens[j].end
        statement = text[start:end]
        yield "dropped", start, end, lambda n, s=statement: f"{{ if (!MX_MUTANT({n})) {{ {s} }} }}"
        if assigned is not None and tokens[assigned].text in ("+=", "-="):
            sign = {"+=": "-=", "-=": "+="}[tokens[assigned].text]
            broken = text[start:tokens[assigned].start] + sign + text[tokens[assigned].end:end]
            yield "arithmetic", start, end, lambda n, s=statement, b=broken: f"{{ if (MX_MUTANT({n})) {{ {b} }} else {{ {s} }} }}"


def argument_sites(text, tokens):
    for i, token in enumerate(tokens[:-1]):
        if token.kind != "name" or token.text in CONTROL or token.text.isupper() or tokens[i + 1].text != "(":
            continue
        parts, start, j, end = [], tokens[i + 1].end, i + 2, tokens[i + 1].pair
        while j <= end:
            if tokens[j].kind == "directive" or tokens[j].text == "{":
                parts = []
                break
            if tokens[j].text == "," or j == end:
                parts.append((start, tokens[j].start))
                start = tokens[j].end
            j = tokens[j].pair + 1 if tokens[j].text in OPEN else j + 1
        for (a, b), (c, d) in zip(parts, parts[1:]):
            one, two = text[a:b].strip(), text[c:d].strip()
            if one == two or '"' in one + two or not one or not two:
                continue
            yield "swap", a, d, lambda n, x=one, y=two: f"(MX_MUTANT({n}) ? {y} : {x}), (MX_MUTANT({n}) ? {x} : {y})"


def sites(text, random):
    """All of them, by kind."""
    hidden, found = elsewhere(text), {}
    for begin, end in bodies(text):
        tokens = tokens_of(text, begin, end)
        if tokens is None:
            continue
        for makers in (operator_sites(text, tokens), constant_sites(text, tokens, random), condition_sites(text, tokens),
                       statement_sites(text, tokens), argument_sites(text, tokens)):
            for kind, start, stop, replace in makers:
                line = text[text.rfind("\n", 0, start) + 1:start].lstrip()
                if line.startswith(("static ", "case ", "#")) or any(a <= start < b for a, b in hidden) or "#" in text[start:stop]:
                    continue
                found.setdefault(kind, []).append((start, stop, replace))
    return found
