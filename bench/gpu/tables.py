"""The tables of docs/gpu.md, made from what one run of the programs of this folder printed: `make bench-gpu`.

    python bench/gpu/tables.py PAGE LOG...

What stands between `<!-- table NAME -->` and `<!-- end -->` is replaced; a table without a number in the logs stays as it is, and the
program says so.  SPDX-License-Identifier: Apache-2.0
"""
import re
import sys

PEERS = ("gluon", "pytorch eager", "pytorch CUDA graph", "pytorch compiled", "jax jit")
HEADINGS = ("Gluon", "PyTorch, eager", "as a CUDA graph", "torch.compile", "JAX")

SMALL = {"MLP": "MLP 784-256-256-10 b64", "LeNet": "LeNet b64"}
MODELS = {"resnet50": "ResNet-50 b128 TF32", "resnet50_bf16": "ResNet-50 b128 bfloat16", "mobilenet": "MobileNet v2 b128 TF32",
          "lstm": "LSTM language model 2x650, 35x20, 10,000 words", "bert": "BERT-base encoder b32 s128 bfloat16",
          "bert_lm": "BERT-base b32 s128 bfloat16 with 30,522 words, Adam",
          "gpt2": "GPT-2 124M b16 t1024 bfloat16, Adam, tied weights"}
PREDICTIONS = {"resnet50": "ResNet-50 TF32", "resnet50_bf16": "ResNet-50 bfloat16", "mobilenet": "MobileNet v2 TF32"}

STEP = re.compile(r"(gluon|pytorch|jax) +(MLP|LeNet|a \+ b),? (hybridized|whole step|eager|CUDA graph|compiled|jit|host) +([\d.]+) ms")
MODEL = re.compile(r"(\w+) +(gluon|pytorch eager|pytorch CUDA graph|pytorch compiled)\b.*? ([\d.]+) (ms|img/s|tok/s) .*arrays +([\d.]+) GB")
PREDICTION = re.compile(r"(\w+) +b(\d+) +(gluon|pytorch eager|pytorch compiled) +([\d.]+) ms +(\d+) img/s")
UNITS = {"img/s": "images/s", "tok/s": "tokens/s"}


def digits(number):
    """Three of them."""
    if number >= 1000:
        size = 10 ** (len(str(int(number))) - 3)
        return f"{round(number / size) * size:,.0f}"
    return f"{number:.3g}"


def read(paths):
    """{table: {row: {peer: cell}}}; a later line replaces an earlier one."""
    found = {"small": {}, "models": {}, "predictions": {}}
    for path in paths:
        with open(path) as file:
            for line in file:
                if match := STEP.match(line):
                    who, row, how, value = match.groups()
                    peer = "gluon" if how == "whole step" else f"{who} {how}"
                    found["small"].setdefault(row, {})[peer] = f"{digits(float(value))} ms"
                elif match := PREDICTION.match(line):
                    row, batch, peer, value, rate = match.groups()
                    cell = f"{digits(float(value))} ms" if batch == "1" else f"{digits(int(rate))} images/s"
                    found["predictions"].setdefault((row, batch), {})[peer] = cell
                elif match := MODEL.match(line):
                    row, peer, value, unit, memory = match.groups()
                    cell = f"{digits(float(value))} {UNITS.get(unit, unit)}, {float(memory):.1f} GB"
                    found["models"].setdefault(row, {})[peer] = cell
    return found


def table(titles, cells):
    """Columns without a number are left out."""
    peers = [p for p in PEERS if any(p in row for row in cells.values())]
    lines = ["| | " + " | ".join(HEADINGS[PEERS.index(p)] for p in peers) + " |", "|---" * (len(peers) + 1) + "|"]
    lines += [f"| {title} | " + " | ".join(cells[key].get(p, "") for p in peers) + " |" for key, title in titles.items() if key in cells]
    return "\n".join(lines)


def main(page, *logs):
    found = read(logs)
    titles = {"small": SMALL, "models": MODELS, "predictions": {
        (row, batch): f"{title}, {'one image' if batch == '1' else 'batches of ' + batch}" for row, title in PREDICTIONS.items() for batch in ("1", "32")}}
    with open(page) as file:
        text = file.read()
    for name, cells in found.items():
        if not any("gluon" in row for row in cells.values()):
            print(f"no numbers for the table '{name}': it stays as it is")
            continue
        text, count = re.subn(rf"(<!-- table {name} -->\n).*?(<!-- end -->)",
                              lambda m, new=table(titles[name], cells): f"{m[1]}\n{new}\n\n{m[2]}", text, flags=re.S)
        if count != 1:
            sys.exit(f"{page} has {count} tables '{name}', wanted one")
    with open(page, "w") as file:
        file.write(text)


if __name__ == "__main__":
    main(*sys.argv[1:])
