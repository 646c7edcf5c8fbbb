"""Side by side: the same programs on this library and on its peers, in one run on one machine.

Every peer is a separate process, in its own environment, once with one thread and once with all; they take turns,
round by round, so that other load on the machine affects all of them.  A number is the median of the rounds, with the
lowest and the highest.

    run.py --peer gluon=build/venv/bin/python --path gluon=build/python --peer numpy=... --out build/bench/side

writes OUT.json and OUT.svg and prints tables.  --avx2: every peer runs as on a CPU without AVX-512 (hide_avx512.c).

SPDX-License-Identifier: Apache-2.0
"""
import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time

import report
import trap_cpuid
from workloads import IMPORTS, PROGRAMS, ROWS

HERE = os.path.dirname(os.path.abspath(__file__))
THREAD_SETTINGS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "MXNET_CPU_WORKER_NTHREADS",
                   "SIDE_THREADS")
LIMIT = 60  # seconds; a row whose warm-up and one measurement take longer is skipped


class Peer:
    """One process that measures on request."""

    def __init__(self, name, python, path, threads):
        self.name, self.threads, self.absent = name, threads, {}
        environment = surroundings(path)
        environment.update({setting: str(threads) for setting in THREAD_SETTINGS})
        errors = tempfile.TemporaryFile("w+")  # a pipe would fill with warnings
        self.process = subprocess.Popen([python, os.path.join(HERE, PROGRAMS[name])], env=environment, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors)
        line = self.process.stdout.readline()
        if not line:
            errors.seek(0)
            said = errors.read().strip().splitlines()
            raise RuntimeError(said[-1] if said else "it did not start")
        self.lanes, self.version = json.loads(line)["lanes"], json.loads(line)["version"]

    def ask(self, **question):
        try:
            self.process.stdin.write(json.dumps(question) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            return {"absent": f"the process ended with code {self.process.wait()}"}
        return json.loads(line)

    def close(self):
        try:
            self.process.stdin.close()
            self.process.wait(10)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            self.process.kill()


def surroundings(path):
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    if path:
        environment["PYTHONPATH"] = path
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    return environment


def hide_avx512(options, folder):
    """Every process that is started from now on finds a CPU without AVX-512."""
    library = os.path.join(folder, "hide_avx512.so")
    subprocess.run([os.environ.get("CC", "cc"), "-O2", "-shared", "-fPIC", "-o", library,
                    os.path.join(HERE, "hide_avx512.c")], check=True)
    done = subprocess.run(["/bin/true"], env={**os.environ, "LD_PRELOAD": library}, capture_output=True, text=True)
    if done.returncode:
        print(f"{done.stderr.strip()}: the peers run copies of their libraries in which it is trapped")
        trap_peers(options)
    os.environ["LD_PRELOAD"] = library


def trap_peers(options):
    """Paths of the peers' packages become those of the copies, which lie beside their environments."""
    os.environ["HIDE_TRAPPED"] = "1"
    os.environ["GLUON_CPU_LEVEL"] = "avx2"
    for name, python in options.peer.items():
        if name == "gluon":
            continue
        packages = subprocess.run([python, "-c", "import sysconfig; print(sysconfig.get_path('platlib'))"], stdout=subprocess.PIPE,
                                  text=True, check=True).stdout.strip()
        trapped = os.path.dirname(os.path.dirname(python)) + "-trapped"
        trap_cpuid.copy(packages, trapped)
        options.path[name] = trapped


def export_zoo(options, folder):
    """Our networks as ONNX files, for the peers that read them; SIDE_MODELS says where."""
    os.environ["SIDE_MODELS"] = folder
    if "gluon" in options.peer and {"onnxruntime", "openvino"} & set(options.peer):
        done = subprocess.run([options.peer["gluon"], os.path.join(HERE, "export_zoo.py"), folder],
                              env=surroundings(options.path.get("gluon")), stderr=subprocess.PIPE, text=True)
        if done.returncode:
            print("no ONNX files of our networks: " + done.stderr.strip().splitlines()[-1])


def start_all(options):
    """The peers that respond, each with one thread and with all; the others are reported."""
    peers, cores = [], len(os.sched_getaffinity(0))
    for name, python in options.peer.items():
        try:
            for threads in sorted({1, cores}):
                peers.append(Peer(name, python, options.path.get(name), threads))
            print(f"{name} {peers[-1].version}: {python}")
        except (OSError, RuntimeError) as error:
            print(f"{name}: skipped, {error}")
    return peers


def lanes_of(row, peers):
    """The peers and lanes that run a row: small operations do not depend on the number of threads."""
    most = max(peer.threads for peer in peers)
    for peer in peers:
        if row.group in ("small", "data") and peer.threads != most:
            continue
        for lane in peer.lanes.get(row.name, ()):
            yield peer, lane


def measure_row(row, peers, options):
    """Rounds in turns; {(peer, lane): seconds of every round}."""
    found = {}
    for turn in range(options.rounds + 1):
        for peer, lane in lanes_of(row, peers):
            key = peer, lane
            if turn and key not in found:
                continue
            start = time.time()
            answer = peer.ask(ask="time", name=row.name, lane=lane, seconds=options.seconds)
            if "absent" in answer:
                peer.absent[row.name] = answer["absent"]
            elif turn == 0:  # warm-up: compiling, first touches
                if time.time() - start < LIMIT:
                    found[key] = []
            else:
                found[key].append(answer["seconds"])
    for (peer, lane), times in found.items():
        yield result(row, peer.name, lane, peer.threads, times)


def result(row, peer, lane, threads, samples):
    return {"workload": row.name, "peer": peer, "lane": lane, "threads": threads,
            "median": statistics.median(samples), "low": min(samples), "high": max(samples), "samples": samples}


def measure_import(row, options, peers):
    """A new interpreter each time; its own start is not counted."""
    names = list(dict.fromkeys(peer.name for peer in peers))
    times = {name: [] for name in names}
    for turn in range(options.rounds + 1):
        for name in names:
            text = f"import time; t = time.perf_counter(); {IMPORTS[name]}; print(time.perf_counter() - t)"
            environment = {key: value for key, value in surroundings(options.path.get(name)).items()
                           if key != "PYTHONDONTWRITEBYTECODE"}
            done = subprocess.run([options.peer[name], "-c", text], env=environment, capture_output=True, text=True)
            if turn and not done.returncode:
                times[name].append(float(done.stdout.split()[-1]))
    for name, samples in times.items():
        if samples:
            yield result(row, name, "", 1, samples)


def measure_memory(row, options, peers):
    """Peak memory of a new process after some LeNet training."""
    for known in {peer.name: peer for peer in peers}.values():
        for lane in known.lanes.get("lenet_train", ()):
            fresh = Peer(known.name, options.peer[known.name], options.path.get(known.name), known.threads)
            answer = fresh.ask(ask="time", name="lenet_train", lane=lane, seconds=0.2)
            size = fresh.ask(ask="memory")
            fresh.close()
            if "absent" not in answer and "absent" not in size:
                yield result(row, known.name, lane, known.threads, [size["bytes"]])


def measure(options, peers):
    for row in ROWS:
        if options.only and row.name not in options.only:
            continue
        if row.name == "import":
            results = measure_import(row, options, peers)
        elif row.name == "memory":
            results = measure_memory(row, options, peers)
        else:
            results = measure_row(row, peers, options)
        results = sorted(results, key=lambda r: r["median"])
        report.print_row(row, results, {peer.name: peer.absent[row.name] for peer in peers if row.name in peer.absent})
        yield from results


def machine():
    model = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo") as file:
            model = next(line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    return {"cpu": model, "cores": len(os.sched_getaffinity(0)), "load": os.getloadavg()[0],
            "python": platform.python_version(), "date": time.strftime("%Y-%m-%d")}


def pair(text):
    name, _, value = text.partition("=")
    if not value or name not in PROGRAMS:
        raise argparse.ArgumentTypeError(f"{text}: expected NAME=VALUE, NAME one of {', '.join(PROGRAMS)}")
    return name, value


def main():
    parser = argparse.ArgumentParser(description="Compares this library with its peers.")
    parser.add_argument("--peer", type=pair, action="append", required=True, metavar="NAME=PYTHON")
    parser.add_argument("--path", type=pair, action="append", default=[], metavar="NAME=FOLDER", help="its PYTHONPATH")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.2, help="of one measurement")
    parser.add_argument("--only", nargs="*", metavar="ROW", help="only these rows")
    parser.add_argument("--avx2", action="store_true", help="hide AVX-512 from all peers")
    parser.add_argument("--out", default="side", help="OUT.json and OUT.svg are written")
    options = parser.parse_args()
    options.peer, options.path = dict(options.peer), dict(options.path)

    facts = {**machine(), "instructions": "AVX2" if options.avx2 else "all"}
    print(f"{facts['cpu']}, {facts['cores']} cores, load {facts['load']:.1f} at the start")
    with tempfile.TemporaryDirectory() as folder:
        if options.avx2:
            hide_avx512(options, folder)
        export_zoo(options, folder)
        peers = start_all(options)
        if not peers:
            sys.exit("no peer to measure")
        try:
            results = list(measure(options, peers))
        finally:
            for peer in peers:
                peer.close()
    facts["versions"] = {peer.name: peer.version for peer in peers}
    facts["load_at_end"] = os.getloadavg()[0]
    report.print_summary(results, list(facts["versions"]))
    report.write(options.out, facts, results)


if __name__ == "__main__":
    main()
