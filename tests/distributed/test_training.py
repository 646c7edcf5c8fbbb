"""Several processes train as one does.  SPDX-License-Identifier: Apache-2.0"""
import numpy as np
import pytest

import launch

# Started once for all of them: a process takes a second to start.
CASES = [
    "net=dense", "net=dense,on=0", "net=conv,hybrid=1", "net=conv,on=0", "net=dense,clip=1", "net=dense,twice=1,hybrid=1",
    "net=dense,add=1", "net=dense,contexts=2", "net=embedding", "net=embedding,on=0", "net=dense,optimizer=sgd,hybrid=1,on=0",
]
SMALL = {"GLUON_BUCKET_KB": 1}  # several buckets even for these networks


@pytest.fixture(scope="module")
def alone():
    """The trainings of one process."""
    return dict(zip(CASES, launch.run(1, "training.py", *CASES)[0]))


def close(reports, case, wanted, tolerance=2e-5):
    for rank, report in enumerate(reports):
        np.testing.assert_allclose(report["values"], wanted["values"], atol=tolerance, err_msg=f"{case}, rank {rank}")
    assert len({r["digest"] for r in reports}) == 1, f"{case}: processes have different parameters"


@pytest.mark.parametrize("processes", [2, 4])
def test_several_processes_are_one(processes, alone):
    reports = launch.run(processes, "training.py", *CASES, env=SMALL)
    for i, case in enumerate(CASES):
        close([r[i] for r in reports], case, alone[case])


def test_fused_steps(alone):
    """The exchange is part of the plan: the bits of the loop, and of every size of buckets."""
    cases = ["net=conv,hybrid=1,on=0", "net=conv,hybrid=1,on=0,fused=1", "net=conv,hybrid=1,fused=1",
             "net=dense,hybrid=1,on=0,fused=1,optimizer=sgd", "net=dense,hybrid=1,on=0,optimizer=sgd",
             "net=conv,hybrid=1,fused=1,seeds=1", "net=conv,hybrid=1,fused=1,compression=fp16", "net=dense,fused=1",
             "net=dense,hybrid=1,fused=1,shard=1"]
    digests = set()
    for env in (SMALL, {"GLUON_BUCKET_KB": 0}, {}):
        reports = launch.run(2, "training.py", *cases, env=env)
        for r in reports:
            assert r[0]["digest"] == r[1]["digest"] == r[2]["digest"] and r[3]["digest"] == r[4]["digest"]
            assert [x["compiled"] > 5 for x in r] == [False, True, True, True, False, True, True, True, False]
        assert all(a["digest"] == b["digest"] for a, b in zip(*reports)), "processes have different parameters"
        close([r[1] for r in reports], "fused", alone["net=conv,hybrid=1"])
        digests.add(reports[0][1]["digest"])
    assert len(digests) == 1


def test_the_profiler_shows_exchanges():
    for events in launch.run(2, "profile.py", env={"GLUON_BUCKET_KB": 4}):
        buckets = [e for e in events if e[0] != "wait"]
        assert len(events) - len(buckets) == 3 and len(buckets) % 3 == 0 and len(buckets) > 3, events
        assert sum(int(e[0].split()[2]) for e in buckets) == 3 * 4 * (51 * 40 + 41 * 40 + 41 * 2)
        assert all(e[2] >= 0 for e in events)
        early = [b for b in buckets if any(w[1] > b[1] for w in events if w[0] == "wait")]
        assert early, "all buckets left after backward"


def test_kinds_of_stores(alone):
    kinds = ["dist_device_sync", "dist_async", "p3", "horovod"]
    reports = launch.run(3, "training.py", *[f"net=dense,store={kind}" for kind in kinds])
    for i, kind in enumerate(kinds):
        close([r[i] for r in reports], kind, alone["net=dense"])


def test_the_same_bits_in_every_run_and_however_gradients_are_packed():
    """With two processes a sum does not depend on the order either: a + b is b + a."""
    case = "net=conv,hybrid=1"
    digests = [launch.run(2, "training.py", case, case, env={"GLUON_BUCKET_KB": kb})[0] for kb in (0, 1, 4096)]
    assert len({result["digest"] for run in digests for result in run}) == 1
    four = [launch.run(4, "training.py", case, env=SMALL)[0][0]["digest"] for _ in range(2)]
    assert four[0] == four[1]


def test_processes_agree():
    """Other initial values: those of rank 0 count.  A gradient that only some process has counts for all."""
    for r in zip(*launch.run(2, "training.py", "seeds=1", "unused=1,optimizer=sgd", "unused=1,on=0", env=SMALL)):
        assert r[0]["digest"] == r[1]["digest"]


def test_divided_states():
    """The numbers of undivided ones, and each process has some of them; files have all."""
    cases = ["net=conv,on=0", "net=conv,shard=1", "net=conv,shard=1,save=1", "net=dense,on=0,contexts=2",
             "net=dense,shard=1,contexts=2"]
    reports = launch.run(3, "training.py", *cases)
    for r in reports:
        assert r[0]["digest"] == r[1]["digest"] == r[2]["digest"] and r[3]["digest"] == r[4]["digest"]
        assert r[0]["states"] > r[1]["states"] == r[2]["states"]
    assert sum(r[1]["states"] for r in reports) == reports[0][0]["states"]


def test_compression():
    kinds = [("fp16", 2e-3), ("2bit", 0.2), ("1bit", 10)]
    wanted = launch.run(1, "training.py", "store=none,optimizer=sgd")[0][0]
    reports = launch.run(2, "training.py", *[f"optimizer=sgd,compression={kind}" for kind, _ in kinds])
    for i, (kind, tolerance) in enumerate(kinds):
        close([r[i] for r in reports], kind, wanted, tolerance)


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_sync_batch_norm(processes):
    launch.run(processes, "norm.py")


def test_modules():
    one = launch.run(1, "module.py")[0]
    for values in launch.run(3, "module.py"):
        np.testing.assert_allclose(np.concatenate(values), np.concatenate(one), atol=2e-5)


def test_programs_in_the_style_of_horovod():
    one = launch.run(1, "horovod.py", "trainer")[0][0]
    for results in launch.run(2, "horovod.py", "trainer", "optimizer"):
        for values in results:
            np.testing.assert_allclose(values, one, atol=1e-5)
