"""Runs the listings of pages and compares what they print with what the pages show.

    run.py [--quick] [--update] [--jobs N] [--prefix FOLDER] [--work FOLDER] PAGE.md...

--quick     quick settings ("# quick: 1" in a listing); after the first of them only the form of the output is checked
--update    writes outputs and figures of this run into the pages
--prefix    where the library is installed: its pkg-config file, its command
--work      folder of the pages' files; each page has a folder of its own there

Each page is run in document order: Python by one process, C statements as one program, shell commands by sh.

SPDX-License-Identifier: Apache-2.0
"""
import argparse
import concurrent.futures
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import compare
import cprogram
import page as pages

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TIMEOUT = 1800  # seconds, of one page


def has_mpi(prefix):
    """Whether several processes can exchange messages: MPI, and the part of the library that uses it."""
    return shutil.which("mpirun") is not None and any(Path(prefix).glob("lib*/**/libgluon_mpi.so"))


def has_onnxruntime(_prefix):
    return importlib.util.find_spec("onnxruntime") is not None


NEEDS = {"mpi": has_mpi, "onnxruntime": has_onnxruntime}  # what listings with needs=NAME need; where it is missing they are not run


class Failure(Exception):
    """A listing that does not do what the page says."""


class Python:
    """The process that runs a page's Python listings."""

    def __init__(self, folder, environment):
        self.process = subprocess.Popen([sys.executable, str(HERE / "worker.py")], cwd=folder, env=environment, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def run(self, listing, code, name):
        request = {"code": code, "line": listing.first, "page": name}
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        noise = []
        for line in self.process.stdout:
            if line.startswith('{"printed"'):
                break
            noise.append(line)  # warnings
        else:
            raise Failure("Python ended:\n" + "".join(noise[-20:]))
        answer = json.loads(line)
        error = answer["error"]
        if error and "raises" not in listing.words:
            raise Failure(error["all"])
        if not error and "raises" in listing.words:
            raise Failure("it raises nothing")
        return answer["printed"] + (error["last"] if error else "")

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def run_console(text, folder, environment):
    """Runs the commands of a console listing; returns the listing as it would look in a terminal."""
    shown = []
    for line in text.splitlines():
        if not line.startswith("$ "):
            continue
        done = subprocess.run(["sh", "-c", line[2:].split("  # ")[0]], cwd=folder, env=environment, text=True, timeout=TIMEOUT,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        shown += [line, done.stdout.rstrip("\n")] if done.stdout else [line]
        if done.returncode and "; echo $?" not in line and "|| true" not in line:
            raise Failure(f"{line[2:]}: exit status {done.returncode}\n{done.stdout}")
    return "\n".join(shown) + "\n"


class Page:
    """One page and its run."""

    def __init__(self, path, options):
        self.path, self.options = Path(path), options
        self.text = self.path.read_text()
        self.lines = self.text.splitlines()
        self.listings = pages.listings(self.lines)
        self.name = str(self.path.resolve().relative_to(ROOT)) if ROOT in self.path.resolve().parents else self.path.name
        self.folder = Path(options.work).resolve() / self.path.parent.name / self.path.stem
        self.python = None
        self.problems, self.loose = [], False
        self.missing = set()  # what listings need and this machine does not have

    def environment(self):
        prefix = Path(self.options.prefix).resolve()
        libraries = [str(p) for p in prefix.glob("lib*") if p.is_dir()] + [str(p) for p in prefix.glob("lib/*-linux-*")]
        paths = {"PATH": [prefix / "bin", Path(sys.executable).parent], "LD_LIBRARY_PATH": libraries,
                 "PKG_CONFIG_PATH": [f"{p}/pkgconfig" for p in libraries], "PYTHONPATH": [ROOT / "docs"]}
        environment = dict(os.environ)
        for name, new in paths.items():
            old = [os.path.abspath(path) for path in environment.get(name, "").split(os.pathsep) if path]  # pages run elsewhere
            environment[name] = os.pathsep.join([*map(str, new), *old])
        environment["MXNET_CPU_WORKER_NTHREADS"] = str(self.options.threads)
        environment["PYTHONWARNINGS"] = "ignore::UserWarning"
        return environment

    def run(self):
        """Runs all listings; returns the list of problems."""
        shutil.rmtree(self.folder, ignore_errors=True)
        (self.folder / "figures").mkdir(parents=True)
        shutil.copytree(ROOT / "examples/data", self.folder / "data")
        environment = self.environment()
        statements = [one for one in self.listings if one.language == "c" and "file" not in one.options
                      and "shown" not in one.words]
        try:
            for listing in self.listings:
                self.run_listing(listing, statements, environment)
        except Failure as problem:
            self.problems.append(f"{self.name}:{listing.first}: {problem}")
        finally:
            if self.python:
                self.python.close()
        if not self.problems:
            self.check_figures()
        return self.problems

    def run_listing(self, listing, statements, environment):
        if "shown" in listing.words or not self.can_run(listing):
            return
        text, changed = pages.quick(listing) if self.options.quick else (listing.text, False)
        self.loose = self.loose or changed
        if "file" in listing.options:
            (self.folder / listing.options["file"]).write_text(pages.without_quick(text) + "\n")
            return
        if listing.language == "python":
            self.python = self.python or Python(self.folder, environment)
            printed = self.python.run(listing, text, self.name)
            if "idiom" in listing.words:
                return
            listing.printed = printed
        elif listing.language == "console":
            listing.printed = run_console(text, self.folder, environment)
        elif listing is statements[-1]:
            self.run_statements(statements, environment)
            for one in statements[:-1]:
                self.check(one)
        else:
            return
        self.check(listing)

    def can_run(self, listing):
        need = listing.options.get("needs")
        if need is None or NEEDS[need](self.options.prefix):
            return True
        self.missing.add(need)
        return False

    def run_statements(self, statements, environment):
        texts = [pages.quick(one)[0] if self.options.quick else one.text for one in statements]
        self.loose = self.loose or (self.options.quick and any(pages.quick(one)[1] for one in statements))
        try:
            printed = cprogram.run(statements, texts, self.path.name, self.folder, environment, TIMEOUT)
        except cprogram.Wrong as problem:
            raise Failure(str(problem)) from None
        for one, text in zip(statements, printed):
            one.printed = text

    def check(self, listing):
        """Compares what was printed with the page."""
        if self.options.update:
            return
        if listing.language == "console":
            wanted, words, options = listing.text, listing.words, listing.options
        elif listing.output is None:
            if listing.printed.strip():
                self.problems.append(f"{self.name}:{listing.last}: it prints something that the page does not show:\n"
                                     f"{listing.printed}")
            return
        else:
            wanted, words, options = listing.output.text, listing.output.words, listing.output.options
        if "any" in words:
            problem = None if listing.printed.strip() else "it prints nothing"
        elif self.loose:
            line = compare.strange_line(wanted, listing.printed) if listing.language != "console" else None
            problem = line and f"it prints a line that looks like none of the page's: {line}"
        else:
            problem = compare.difference(wanted, listing.printed, words, options)
        if problem:
            self.problems.append(f"{self.name}:{listing.first}: stale: {problem}\n--- the page\n{wanted}\n--- the run\n"
                                 f"{listing.printed}")

    def check_figures(self):
        """Every figure of the page is one that the run drew; with full settings, it shows the same things."""
        for figure in dict.fromkeys(pages.figures(self.text)):
            drawn, stored = self.folder / figure, self.path.parent / figure
            if not drawn.exists():
                self.problems.append(f"{self.name}: no listing draws {figure}")
            elif self.options.update:
                stored.parent.mkdir(exist_ok=True)
                shutil.copyfile(drawn, stored)
            elif not stored.exists():
                self.problems.append(f"{self.name}: {figure} is not stored")
            elif not self.loose and compare.drawn(stored.read_text()) != compare.drawn(drawn.read_text()):
                self.problems.append(f"{self.name}: {figure} is stale")

    def update(self):
        """Writes what the run printed into the page, from the last listing to the first."""
        lines = list(self.lines)
        for listing in reversed(self.listings):
            if listing.printed is None:
                continue
            indent = listing.indent
            printed = [(indent + line).rstrip() for line in listing.printed.strip("\n").splitlines()]
            if listing.language == "console":
                lines[listing.first - 1:listing.last - 1] = printed
            elif listing.output:
                lines[listing.output.first - 1:listing.output.last - 1] = printed
            elif listing.printed.strip():
                lines[listing.last:listing.last] = ["", indent + "```output", *printed, indent + "```"]
        text = "\n".join(lines) + "\n"
        if text != self.text:
            self.path.write_text(text)


def run_page(path, options):
    start = time.monotonic()
    page = Page(path, options)
    problems = page.run()
    if options.update:
        page.update()
    without = f" (without {', '.join(sorted(page.missing))}: some listings were not run)" if page.missing else ""
    return page.name + without, problems, time.monotonic() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pages", nargs="+")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1, help="of each page")
    parser.add_argument("--prefix", default="build/book/prefix")
    parser.add_argument("--work", default="build/book")
    options = parser.parse_args()
    if options.update and options.quick:
        parser.error("pages are updated with full settings")
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for done in concurrent.futures.as_completed([pool.submit(run_page, path, options) for path in options.pages]):
            name, problems, seconds = done.result()
            print(f"{'FAILED' if problems else 'ok':7}{seconds:6.1f} s  {name}", flush=True)
            for problem in problems:
                print(problem, flush=True)
            failed += bool(problems)
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
