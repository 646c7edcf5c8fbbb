"""Mutation testing: breaks kernels, inference and execution in hundreds of small ways and counts how many of them the tests notice.

    mutate.py make   --work DIR [--count N] [--seed S]     a copy of the sources that contains all mutants, and its build
    mutate.py map    --work DIR                            which test reaches which mutant
    mutate.py run    --work DIR                            the tests of each mutant until one fails
    mutate.py report --work DIR                            the share that was noticed; the others, with their places

One build contains all mutants: `a < b` becomes `(MX_MUTANT(17) ? a <= b : a < b)`, and a file that is mapped by the runner and
by the library says which one is active (mutant.c) and which ones were reached.  `make mutants` runs all steps.

SPDX-License-Identifier: Apache-2.0
"""
import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys

from sites import sites

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
FOLDERS = ["src/cpu", "src/op", "src/pass", "src/exec", "src/ndarray", "src/graph", "src/gluon/block", "src/gluon/compile",
           "src/gluon/train", "src/gluon/rnn", "src/gluon/def"]
# Formulas are also text: the C writer puts them into files, in which a mutant would not compile.
TEXTS = re.compile(r"src/op/formula/|src/op/emit")

# Code that the tests which are run here cannot reach: it needs several processes (tests/distributed), a GPU (make test-gpu), or an
# instruction level with wide vectors.
OUTSIDE = re.compile(r"src/gluon/train/(buckets\w*|dist|wire|sync_norm|trainer_shard|trainer_sync)\.c|"
                     r"src/exec/(plan/capture|device_sum)\.c|src/cpu/kernels/blocked/")


def equivalent():
    """Mutants that no test can notice: {(file, kind, broken part, line): reason}."""
    found = {}
    with open(os.path.join(HERE, "equivalent.txt")) as file:
        for line in file:
            if line.strip() and not line.startswith("#"):
                path, kind, part, code, reason = [part.strip() for part in line.split(" :: ")]
                found[path, kind, part, code] = reason
    return found


def files(folders):
    for folder in folders:
        for path, _, names in sorted(os.walk(os.path.join(ROOT, folder))):
            for name in sorted(names):
                relative = os.path.relpath(os.path.join(path, name), ROOT)
                # A header that everything includes would have everything compiled again.
                local = name.endswith(".h") and relative.startswith(("src/cpu/kernels/", "src/op/def/"))
                if (local or name.endswith(".c")) and not TEXTS.search(relative) and not OUTSIDE.search(relative):
                    yield relative


def read(path):
    with open(path) as file:
        return file.read()


def described(path, text, kind, site):
    start, end, replace = site
    begin = text.rfind("\n", 0, start) + 1
    return {"file": path, "line": text.count("\n", 0, start) + 1, "kind": kind, "start": start, "end": end,
            "part": " ".join(text[start:end].split()), "replace": replace,
            "code": " ".join(text[begin:text.find("\n", max(start, end - 1))].split())}


def survivors(path, texts, found):
    """The mutants that a report listed, out of the sites that were found; those whose code has changed are gone."""
    for entry in read(path).split("\n"):
        match = re.match(r"(?:survived|not reached): (\S+):(\d+) :: (\w+) :: (.*) :: (.*)", entry)
        if match and match.group(1) in found:
            file, line, kind, *rest = match.groups()
            candidates = [described(file, texts[file], kind, site) for site in found[file].get(kind, [])]
            candidates = [m for m in candidates if [m["part"], m["code"]] == rest]
            if candidates:
                yield {**min(candidates, key=lambda m: abs(m["line"] - int(line))), "again": True}


def choose(count, seed, folders, also=None):
    """[{id, file, line, kind, start, end, ...}]: spread over files in proportion to their lines, over kinds equally.

    Those of the list `also` are added; they are no part of the sample."""
    chooser = random.Random(seed)
    texts = {path: read(os.path.join(ROOT, path)) for path in files(folders)}
    found = {path: sites(text, random.Random(f"{seed} {path}")) for path, text in texts.items()}
    found = {path: kinds for path, kinds in found.items() if kinds}
    total = sum(texts[path].count("\n") for path in found)
    chosen, debt = list(survivors(also, texts, found)) if also else [], 0.0
    taken = {}
    for mutant in chosen:
        taken.setdefault(mutant["file"], []).append((mutant["start"], mutant["end"]))
    for path, kinds in found.items():
        debt += texts[path].count("\n") / total * count
        used = taken.setdefault(path, [])
        while debt >= 0.5 and any(kinds.values()):
            kind = chooser.choice(sorted(k for k, v in kinds.items() if v))
            start, end, replace = kinds[kind].pop(chooser.randrange(len(kinds[kind])))
            if any(a < end and start < b for a, b in used):
                continue
            used.append((start, end))
            chosen.append(described(path, texts[path], kind, (start, end, replace)))
            debt -= 1
    for number, mutant in enumerate(chosen, 1):
        mutant["id"] = number
    return chosen, texts


def write_if_changed(path, text):
    if os.path.exists(path) and not os.path.islink(path) and read(path) == text:
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)


def write_tree(tree, mutants, texts):
    """Links to everything but src/, which is copied; mutants go into the copies."""
    os.makedirs(tree, exist_ok=True)
    for name in os.listdir(ROOT):
        if name not in ("src", ".git") and not name.startswith("build") and not os.path.lexists(os.path.join(tree, name)):
            os.symlink(os.path.join(ROOT, name), os.path.join(tree, name))
    by_file = {}
    for mutant in mutants:
        by_file.setdefault(mutant["file"], []).append(mutant)
    for path, _, names in os.walk(os.path.join(ROOT, "src")):
        for name in names:
            relative = os.path.relpath(os.path.join(path, name), ROOT)
            text = texts.get(relative) or read(os.path.join(ROOT, relative))
            for mutant in sorted(by_file.get(relative, []), key=lambda m: -m["start"]):
                flat = " ".join(mutant["replace"](mutant["id"]).split("\n"))  # lines keep their numbers
                text = text[:mutant["start"]] + flat + "\n" * mutant["lines"] + text[mutant["end"]:]
            if relative in by_file:
                text = '#include "base/mutant.h"\n#line 1\n' + text
            if relative in ("src/base/alloc.c", "src/base/assert.c"):
                text = "#undef NDEBUG /* sizes and ends of blocks are checked, as in the builds with sanitizers */\n#line 1\n" + text
            write_if_changed(os.path.join(tree, relative), text)
    for name in ("mutant.h", "mutant.c"):
        write_if_changed(os.path.join(tree, "src/base", name), read(os.path.join(HERE, name)))


def build(work, jobs, python):
    """Returns the output of a build that failed, or None."""
    tree, out = os.path.join(work, "tree"), os.path.join(work, "tree", "build-dev")
    if not os.path.exists(os.path.join(out, "build.ninja")):
        launcher = ["-DCMAKE_C_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
        subprocess.run(["cmake", "-G", "Ninja", "-S", tree, "-B", out, "-DGLUON_WERROR=ON", "-DGLUON_LEVELS=generic", "-DGLUON_CUDA=OFF",
                        f"-DGLUON_PYTHON={'ON' if python else 'OFF'}", "-DGLUON_BENCH=OFF", "-DGLUON_EXAMPLES=OFF", "-DGLUON_CLI=OFF", "-DGLUON_MPI=OFF", f"-DPython3_EXECUTABLE={sys.executable}",
                        f"-DPython_EXECUTABLE={sys.executable}", *launcher], check=True)
    done = subprocess.run(["ninja", "-C", out, "-k", "0", "-j", str(jobs)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    with open(os.path.join(work, "build.log"), "w") as file:
        file.write(done.stdout)
    return done.stdout if done.returncode else None


def refused(output, mutants, tree):
    """The mutants in lines that the compiler refuses: it notices them."""
    found = set()
    for path, line in set(re.findall(r"^(\S+?):(\d+):\d+: (?:error|note)", output, re.M)):
        relative = os.path.relpath(os.path.join(tree, "build-dev", path), tree)
        found.update(m["id"] for m in mutants if m["file"] == relative and m["line"] <= int(line) <= m["line"] + m["lines"])
    return found


def make(options):
    mutants, texts = choose(options.count, options.seed, options.folders, options.also)
    for mutant in mutants:
        mutant["lines"] = texts[mutant["file"]].count("\n", mutant["start"], mutant["end"])
    tree = os.path.join(options.work, "tree")
    while True:
        write_tree(tree, mutants, texts)
        output = build(options.work, options.jobs, not options.no_python)
        if output is None:
            break
        wrong = refused(output, mutants, tree)
        print(f"the compiler refuses {len(wrong)} mutants: {sorted(wrong)}", flush=True)
        if not wrong:
            sys.exit(output[-4000:])
        mutants = [m for m in mutants if m["id"] not in wrong]
    for name in ("map.jsonl", "results.jsonl"):  # of other mutants
        if os.path.exists(os.path.join(options.work, name)):
            os.unlink(os.path.join(options.work, name))
    with open(os.path.join(options.work, "mutants.json"), "w") as file:
        json.dump([{k: v for k, v in m.items() if k != "replace"} for m in mutants], file, indent=1)
    print(f"{len(mutants)} mutants in {len({m['file'] for m in mutants})} files")


def operators():
    """The names of all operators that have samples."""
    with open(os.path.join(ROOT, "tests", "op", "inference.gen.txt")) as file:
        return [line.split(" ")[0] for line in file if not line.startswith("#")]


def test_files(names):
    from runner import LEFT_OUT
    folder = os.path.join(ROOT, "tests", "python")
    found = [name for name in sorted(os.listdir(folder)) if name.startswith("test_") and not name.startswith(LEFT_OUT)]
    return [os.path.join(folder, name) for name in found if not names or name in names]


def session_of(options):
    from runner import Session
    sys.path.insert(0, os.path.join(ROOT, "tests", "python"))
    os.chdir(ROOT)
    shard, shards = map(int, options.shard.split("/"))
    return Session(options.work, shard, shards)


def map_tests(options):
    session = session_of(options)
    if not options.tests:
        session.map_programs(operators(), options.longest)
    if not options.no_python:
        session.with_pytests(test_files(options.tests), session.map_pytests)
    session.close()


def run(options):
    session = session_of(options)
    session.python_only = bool(options.tests)
    work = lambda s: s.run(options.budget, set(options.only))  # noqa: E731
    work(session) if options.no_python else session.with_pytests(test_files(options.tests), work)
    session.close()


def report(options):
    """Noticed, survived, equivalent; by kind and by folder."""
    from runner import lines, load
    mutants = load(os.path.join(options.work, "mutants.json"), [])
    results = {}
    for entry in lines(os.path.join(options.work, "results.jsonl")):
        if entry["unit"] or not results.get(entry["id"], {}).get("unit"):
            results[entry["id"]] = entry
    excused, counts, folders, again = equivalent(), {}, {}, {}
    for mutant in mutants:
        result = results.get(mutant["id"], {"outcome": "not run", "unit": None})
        reason = excused.get((mutant["file"], mutant["kind"], mutant["part"], mutant["code"]), "")
        outcome = "noticed" if result["unit"] else "outside" if reason.startswith("outside") else "equivalent" if reason else result["outcome"]
        outcome = "outside" if OUTSIDE.search(mutant["file"]) else outcome
        tally = again if mutant.get("again") else counts
        tally[outcome] = tally.get(outcome, 0) + 1
        judged = outcome not in ("equivalent", "outside", "not run")
        if judged and outcome != "noticed":
            print(f"{outcome}: {mutant['file']}:{mutant['line']} :: {mutant['kind']} :: {mutant['part']} :: {mutant['code']}")
        if not mutant.get("again"):
            folder = folders.setdefault(re.match(r"src/(\w+(/\w+)?)/", mutant["file"]).group(1), [0, 0])
            folder[0] += outcome == "noticed"
            folder[1] += judged
    for name, (noticed, all_of_them) in sorted(folders.items()):
        print(f"{name:24} {noticed:4} of {all_of_them}")
    judged = sum(number for outcome, number in counts.items() if outcome not in ("equivalent", "outside", "not run"))
    print(counts)
    if again:
        print(f"tried again: {again}")
    print(f"noticed: {counts.get('noticed', 0)} of {judged}, {100 * counts.get('noticed', 0) / max(judged, 1):.1f} %")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("step", choices=["make", "map", "run", "report"])
    parser.add_argument("--work", required=True)
    parser.add_argument("--count", type=int, default=640)
    parser.add_argument("--seed", type=int, default=2)
    parser.add_argument("--folders", nargs="*", default=FOLDERS, help="make: where the mutants are; default: all that are tested here")
    parser.add_argument("--also", help="make: a list like survivors.txt; its mutants are tried, too, and are no part of the share")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--shard", default="0/1", help="number/count: this process does a part of the work")
    parser.add_argument("--budget", type=float, default=60, help="seconds of tests per mutant")
    parser.add_argument("--longest", type=float, default=300, help="map: seconds after which a C test is ended and left out")
    parser.add_argument("--no-python", action="store_true", help="the C tests alone, where there is no pytest")
    parser.add_argument("--tests", nargs="*", default=[], help="map, run: only these files of tests/python")
    parser.add_argument("--only", nargs="*", type=int, default=[], help="run: only these mutants")
    options = parser.parse_args()
    options.work = os.path.abspath(options.work)
    os.makedirs(options.work, exist_ok=True)
    {"make": make, "map": map_tests, "run": run, "report": report}[options.step](options)


if __name__ == "__main__":
    main()
