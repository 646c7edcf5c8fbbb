"""Hostile files: every operator case of the onnx package with something wrong in it.

A case is changed (an attribute out of range, an input missing, of another type or shape, an output too many, a constant out of
range) and read by a child process whose memory is limited: the result is a network or an error that names the node.

SPDX-License-Identifier: Apache-2.0
"""
import os
import random
import resource
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

NUMBERS = (-1, 0, 1, 3, 7, 64, 2**31, -2**31, 2**62, -2**62)
MEMORY = 1 << 30  # above what the process has after importing everything


def change_attribute(model, choose):
    node = choose.choice(model.graph.node)
    if not node.attribute:
        return False
    attribute = choose.choice(node.attribute)
    if attribute.ints:
        attribute.ints[choose.randrange(len(attribute.ints))] = choose.choice(NUMBERS)
        if choose.random() < 0.3:
            attribute.ints.extend([1] * choose.choice((1, 3, 40)))
    elif attribute.type == onnx.AttributeProto.INT:
        attribute.i = choose.choice(NUMBERS)
    elif attribute.type == onnx.AttributeProto.FLOAT:
        attribute.f = choose.choice((float("nan"), float("inf"), -1e30, 0.0))
    elif attribute.type == onnx.AttributeProto.STRING:
        attribute.s = choose.choice((b"", b"x" * 300, b"\xff\xfe"))
    else:
        node.attribute.remove(attribute)
    return True


def change_inputs(model, choose):
    node = choose.choice(model.graph.node)
    how = choose.randrange(3)
    if how == 0 and node.input:
        node.input[choose.randrange(len(node.input))] = ""
    elif how == 1 and node.input:
        del node.input[choose.randrange(len(node.input)):]
    else:
        node.input.extend(list(node.input)[:1] * choose.choice((1, 5)))
    return True


def change_type(model, choose):
    tensors = [i for i in model.graph.input if i.type.HasField("tensor_type")]
    if not tensors:
        return False
    kind = choose.choice(tensors).type.tensor_type
    if choose.random() < 0.4:
        kind.elem_type = choose.choice((1, 2, 6, 7, 9, 10, 12, 16, 21, 99))
    else:
        shape = choose.choice(((), (0,), (1,), (3, 0), (2, 3, 4), (1,) * 7, (2**40, 2), ("n", 3)))
        kind.shape.CopyFrom(helper.make_tensor_type_proto(1, shape).tensor_type.shape)
    return True


def change_outputs(model, choose):
    node = choose.choice(model.graph.node)
    node.output.extend(["more"] * choose.choice((1, 9)))
    return True


def change_constant(model, choose):
    """An input becomes a constant with odd elements."""
    tensors = [i for i in model.graph.input if i.type.HasField("tensor_type")]
    if not tensors:
        return False
    info = choose.choice(tensors)
    shape = choose.choice(((), (0,), (1,), (4,), (40,), (2, 2)))
    values = np.array([choose.choice(NUMBERS) for _ in range(int(np.prod(shape)))], np.int64).reshape(shape)
    kind = choose.choice((np.int64, np.int64, np.float32, np.int32, np.uint8))
    with np.errstate(all="ignore"):
        model.graph.initializer.append(numpy_helper.from_array(values.astype(kind), info.name))
    model.graph.input.remove(info)
    return True


CHANGES = (change_attribute, change_inputs, change_type, change_outputs, change_constant)


def hostile(case, choose):
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    for _ in range(choose.choice((1, 1, 2))):
        choose.choice(CHANGES)(model, choose)
    return model.SerializeToString()


def read_all(part, parts, path):
    """The child: reads the changed cases of one part."""
    import mxnet as mx
    from cases import node_cases
    from mxnet import _core
    cases = [case for case in node_cases() if case.model is not None and case.model.graph.node][part::parts]
    with open("/proc/self/statm") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY, now + MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (240, 240))
    count = failed = 0
    for case in cases:
        choose = random.Random(case.name)
        for trial in range(2 if "_expanded" not in case.name else 1):
            with open(path, "wb") as file:
                file.write(hostile(case, choose))
            print(case.name, trial, flush=True)
            count += 1
            try:
                _core.onnx_read(path, True, [], [])
            except (mx.MXNetError, MemoryError) as error:
                failed += 1
                assert str(error), case.name
                assert "memory" not in str(error).lower() or "limit" in str(error).lower(), (case.name, str(error))
    print(f"{count} files, {failed} refused")
    assert count // 4 < failed < count


@pytest.mark.parametrize("part", range(2))
def test_hostile_cases(part, tmp_path):
    path = str(tmp_path / "case.onnx")
    child = subprocess.run([sys.executable, __file__, str(part), "2", path], capture_output=True, text=True, timeout=600,
                           cwd=os.path.dirname(__file__), env=dict(os.environ))
    assert child.returncode == 0, "\n".join(child.stdout.splitlines()[-3:] + child.stderr.splitlines()[-15:])


if __name__ == "__main__":
    read_all(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
