"""Follows the walk-throughs on a copy of the source: makes their changes, builds, runs their commands, compares the output.

    walkthroughs.py [--update] [--work build/walkthroughs] [--jobs N] PAGE.md...

    ```c file=src/pass/squares.c      a new file
    ```diff file=src/pass/passes.h    a change: lines that begin with + are inserted between the others, which must be there, once;
                                      "..." at the end of a line stands for its rest
    ```console                        commands, in the folder of the copy, and their output

The changes of all pages are made before anything is built, so there is one build.

SPDX-License-Identifier: Apache-2.0
"""
import argparse
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import compare
import page as pages
from run import Failure, run_console

ROOT = Path(__file__).resolve().parents[2]
CONFIGURE = ["-DGLUON_LEVELS=generic", "-DCMAKE_BUILD_TYPE=Debug", "-DGLUON_PYTHON=ON", "-DGLUON_CUDA=OFF", "-DGLUON_MPI=OFF", "-DGLUON_BENCH=OFF",
             "-DGLUON_EXAMPLES=OFF", "-DGLUON_CLI=OFF"]


def copy_source(target):
    """The files that git knows or would add; only those that differ are written, so that a second build is short."""
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True)
    names = [n for n in listed.stdout.decode().split("\0") if n] if listed.returncode == 0 else [
        str(p.relative_to(ROOT)) for p in ROOT.rglob("*") if p.is_file() and not p.relative_to(ROOT).parts[0].startswith("build")]
    return {name: (ROOT / name).read_bytes() for name in names if (ROOT / name).is_file()}


def matches(line, wanted):
    return line.startswith(wanted[:-3].rstrip()) if wanted.endswith("...") else line.rstrip() == wanted.rstrip()


def changed(text, diff, where):
    """The text with the lines of a diff inserted."""
    hunk, lines = diff.splitlines(), text.split("\n")
    context = [line[1:] for line in hunk if not line.startswith("+")]
    found = [i for i in range(len(lines)) if all(i + k < len(lines) and matches(lines[i + k], one) for k, one in enumerate(context))]
    if len(found) != 1 or not context:
        raise Failure(f"{where}: the lines around the change were found {len(found)} times")
    there = iter(lines[found[0]:found[0] + len(context)])
    new = [line[1:] if line.startswith("+") else next(there) for line in hunk]
    return "\n".join(lines[:found[0]] + new + lines[found[0] + len(context):])


def apply(path, files):
    """Makes the changes of one page in {name: bytes}."""
    for block in pages.blocks(path.read_text().splitlines()):
        name = block.options.get("file")
        if not name:
            continue
        where = f"{path.name}:{block.first}: {name}"
        if block.language == "diff":
            if name not in files:
                raise Failure(f"{where} does not exist")
            files[name] = changed(files[name].decode(), block.text, where).encode()
        elif name in files:
            raise Failure(f"{where} exists already")
        else:
            files[name] = (block.text + "\n").encode()


def write(files, tree):
    for name, data in files.items():
        target = tree / name
        if not target.exists() or target.read_bytes() != data:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
    for old in [p for top in ("src", "include", "python", "tests") for p in (tree / top).rglob("*") if p.is_file()]:
        if str(old.relative_to(tree)) not in files:
            old.unlink()


def follow(path, tree, environment, update):
    """Runs the commands of one page; returns its problems."""
    lines = path.read_text().splitlines()
    runs = [(block, run_console(block.text, tree, environment)) for block in pages.blocks(lines) if block.language == "console"]
    if update:
        for block, printed in reversed(runs):
            lines[block.first - 1:block.last - 1] = printed.rstrip("\n").splitlines()
        path.write_text("\n".join(lines) + "\n")
        return []
    found = [(block, printed, compare.difference(block.text, printed, block.words, block.options)) for block, printed in runs]
    return [f"{path}:{block.first}: stale: {problem}\n--- the page\n{block.text}\n--- the run\n{printed}" for block, printed, problem in found
            if problem]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pages", nargs="+", type=Path)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--work", default="build/walkthroughs", type=Path)
    parser.add_argument("--jobs", default=os.cpu_count(), type=int)
    options = parser.parse_args()
    tree, start = options.work.resolve() / "tree", time.monotonic()
    environment = {**os.environ, "CMAKE_BUILD_PARALLEL_LEVEL": str(options.jobs), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
                   "PYTHONPATH": ""}
    shutil.rmtree(tree / "plans", ignore_errors=True)
    try:
        files = copy_source(tree)
        for path in options.pages:
            apply(path, files)
        write(files, tree)
        configured = subprocess.run(["cmake", "-S", str(tree), "-B", str(tree / "build"), *CONFIGURE, f"-DPython3_EXECUTABLE={sys.executable}",
                                     *os.environ.get("CMAKE_FLAGS", "").split()], capture_output=True, text=True)
        if configured.returncode:
            raise Failure(configured.stdout + configured.stderr)
        problems = [problem for path in options.pages for problem in follow(path, tree, environment, options.update)]
    except Failure as problem:
        log = tree / "build.log"
        wrong = [line for line in log.read_text(errors="replace").splitlines() if "error" in line] if log.exists() else []
        problems = [str(problem), *wrong[:10]]
    print("\n".join(problems) if problems else f"walkthroughs: {len(options.pages)} pages work, {time.monotonic() - start:.0f} s")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
