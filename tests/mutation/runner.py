"""Runs units of tests against mutants: the map of what reaches what, then each mutant until a test notices it.

SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import sys
import time

from units import Programs, Pytests, State

# What computes nothing, needs other devices, or takes long and runs the same code as others.
LEFT_OUT = ("test_gpu", "test_docs", "test_examples", "test_stubs", "test_help", "test_download", "test_torch_weights",
            "test_text_zoo", "test_interrupt", "test_package", "test_contrib_text", "test_api_names", "test_numpy_aliases")


def load(path, otherwise):
    if not os.path.exists(path):
        return otherwise
    with open(path) as file:
        return json.load(file)


def append(path, entry):
    with open(path, "a") as file:
        file.write(json.dumps(entry) + "\n")


def lines(path):
    if not os.path.exists(path):
        return []
    with open(path) as file:
        return [json.loads(line) for line in file]


class Session:
    """Everything that a shard needs; the Python tests are collected once, when they are wanted."""

    def __init__(self, work, shard=0, shards=1):
        self.work, self.shard, self.shards = work, shard, shards
        self.state = State(f"/dev/shm/gluon-mutants-{os.getpid()}")
        self.build = os.path.join(work, "tree", "build-dev")
        sys.path.insert(0, os.path.join(self.build, "python"))
        os.environ["PYTHONPATH"] = os.path.join(self.build, "python")
        self.programs = Programs(self.build)
        self.pytests, self.python_only = None, False

    def close(self):
        os.unlink(os.environ["GLUON_MUTANT_FILE"])

    def with_pytests(self, paths, then):
        """Calls then(self) inside a session of pytest in which the tests of the paths are collected."""
        import pytest
        outer = self

        class Loop:
            def pytest_runtestloop(self, session):
                outer.pytests = Pytests(session)
                then(outer)
                return True

        return pytest.main([*paths, "-o", "addopts=", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:terminal", "-p", "no:faulthandler",
                            "--continue-on-collection-errors"], plugins=[Loop()])

    # ---- the map ----
    def note(self, unit, passed, seconds):
        append(os.path.join(self.work, "map.jsonl"), {"unit": unit, "passed": passed, "seconds": round(seconds, 3), "reached": self.state.reached()})

    def known(self):
        return {entry["unit"] for entry in lines(os.path.join(self.work, "map.jsonl"))}

    def map_programs(self, operators, longest):
        known = self.known()
        for number, unit in enumerate(self.programs.units(operators)):
            if unit in known or number % self.shards != self.shard:
                continue
            self.state.clear()
            start = time.time()
            outcome = self.programs.run(unit, longest)
            self.note(unit, outcome == "passed", time.time() - start)

    def map_pytests(self, _):
        """Tests of a file in one fork each: a test that ends its process costs only its file."""
        known, groups = self.known(), {}
        for unit in self.pytests.items:
            groups.setdefault(unit.split("::")[0], []).append(unit)
        for number, units in enumerate(groups.values()):
            units = [unit for unit in units if unit not in known]
            if number % self.shards != self.shard or not units:
                continue
            pid = os.fork()
            if pid == 0:
                try:
                    for unit in units:
                        self.state.clear()
                        start = time.time()
                        passed = self.pytests.run_item(unit)
                        self.note(unit, passed, time.time() - start)
                finally:
                    os._exit(0)
            os.waitpid(pid, 0)

    # ---- mutants ----
    def prepare(self):
        self.mutants = load(os.path.join(self.work, "mutants.json"), [])
        self.seconds, self.reach, self.width = {}, {}, {}
        for entry in lines(os.path.join(self.work, "map.jsonl")):
            if entry["passed"]:
                self.seconds[entry["unit"]] = entry["seconds"]
                self.width[entry["unit"]] = len(entry["reached"])
                for number in entry["reached"]:
                    self.reach.setdefault(number, []).append(entry["unit"])
        self.verified, self.flaky, self.kills = set(), set(), {}

    def limit(self, unit):
        return max(20, 20 * self.seconds[unit])

    def order(self, mutant, tried):
        """Quick and specific tests first, and those that noticed others, above all in the same file."""
        near, anywhere = self.kills.get(mutant["file"], {}), self.kills.get(None, {})
        score = lambda u: (self.seconds[u] + 0.02) * (1 + self.width[u] / 40) / (1 + 4 * near.get(u, 0) + 0.3 * anywhere.get(u, 0))  # noqa: E731
        return sorted((u for u in self.reach.get(mutant["id"], []) if u not in tried and u not in self.flaky and self.usable(u)), key=score)

    def usable(self, unit):
        return bool(self.pytests) and unit in self.pytests.items if unit.startswith("py:") else not self.python_only

    def chunks(self, units, budget):
        """Consecutive units of one sort, for at most `budget` seconds in all; no more than 20 at once."""
        spent, chunk = 0, []
        for unit in units:
            if spent > budget:
                break
            if chunk and (unit[:2] != chunk[0][:2] or len(chunk) == 20 or unit[:2] != "py"):
                yield chunk
                chunk = []
            chunk.append(unit)
            spent += self.seconds[unit]
        if chunk:
            yield chunk

    def attempt(self, number, chunk):
        """The unit that notices the mutant, and how."""
        self.state.activate(number)
        try:
            if chunk[0].startswith("py:"):
                at, outcome = self.pytests.run(chunk, self.limit)
                return (None, outcome) if at is None else (chunk[at], outcome)
            outcome = self.programs.run(chunk[0], self.limit(chunk[0]))
            return (None if outcome == "passed" else chunk[0]), outcome
        finally:
            self.state.activate(0)

    def passes_unbroken(self, unit):
        if unit not in self.verified:
            if self.attempt(0, [unit])[0] is None:
                self.verified.add(unit)
            else:
                self.flaky.add(unit)
        return unit in self.verified

    def hunt(self, mutant, budget, tried=()):
        start, tried = time.time(), set(tried)
        for chunk in self.chunks(self.order(mutant, tried), budget):
            unit, outcome = self.attempt(mutant["id"], chunk)
            tried.update(chunk if unit is None else chunk[:chunk.index(unit) + 1])
            if unit is not None and self.passes_unbroken(unit):
                for place in (mutant["file"], None):
                    kills = self.kills.setdefault(place, {})
                    kills[unit] = kills.get(unit, 0) + 1
                return {"id": mutant["id"], "unit": unit, "outcome": outcome, "seconds": round(time.time() - start, 1)}
        return {"id": mutant["id"], "unit": None, "outcome": "survived" if mutant["id"] in self.reach else "not reached",
                "tried": sorted(tried), "seconds": round(time.time() - start, 1)}

    def run(self, budget, only=None):
        self.prepare()
        path = os.path.join(self.work, "results.jsonl")
        done = {}
        for entry in lines(path):
            if entry["unit"] or not done.get(entry["id"], {}).get("unit"):
                done[entry["id"]] = entry
        for mutant in self.mutants:
            old = done.get(mutant["id"])
            if mutant["id"] % self.shards != self.shard or (old and old["unit"]) or (only and mutant["id"] not in only):
                continue
            append(path, self.hunt(mutant, budget, old["tried"] if old else ()))
