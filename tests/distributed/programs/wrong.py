"""Processes that do not fit together: the first argument says how.  Each reports the error that it gets.

SPDX-License-Identifier: Apache-2.0
"""
import ctypes
import os
import re
import sys

import mxnet as mx
import mxnet.distributed as dist
from launch import report
from mxnet import autograd, gluon

how = sys.argv[1]


def other_version():
    """What a process with another version of the library does: it opens the MPI part under that version."""
    class Library(ctypes.Structure):
        _fields_ = [("border", ctypes.c_int), ("error_set", ctypes.c_void_p), ("version", ctypes.c_char_p)]

    errors = []
    remember = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p)(
        lambda code, form, text: errors.append(text.decode()) or code)
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "src", "comm", "transport.h")
    with open(source, encoding="utf-8") as file:
        border = int(re.search(r"#define MX_MPI_BORDER (\d+)", file.read())[1])
    part = ctypes.CDLL(os.path.join(os.path.dirname(mx.__file__), "libgluon_mpi.so"))
    part.mx_mpi_open.restype = ctypes.c_void_p
    library = Library(border, ctypes.cast(remember, ctypes.c_void_p), b"9.8.7")
    assert not part.mx_mpi_open(ctypes.byref(library))
    raise mx.error.CommunicationError(errors[0])


def train(net, params, data):
    """Two steps."""
    trainer = gluon.Trainer(params, "sgd", {"learning_rate": 0.1}, kvstore="dist_sync")
    for _ in range(2):
        with autograd.record():
            loss = net(data).sum()
        loss.backward()
        trainer.step(4)


def run(rank):
    net = gluon.nn.Dense(3, in_units=2)
    net.initialize()
    params, data = list(net.collect_params().values()), mx.nd.ones((2, 2))
    if how == "order" and rank == 1:
        params.reverse()
    if how == "nan" and rank == 1:
        data[1, 0] = float("nan")
    if how == "disk":  # argument 2: a folder with little room, and a good file in it
        if rank == 0:
            mx.nd.save(os.path.join(sys.argv[2], "net.params"), {"large": mx.nd.ones((200, 300))})
        dist.barrier()
    train(net, params, data)


number = int(os.environ["OMPI_COMM_WORLD_RANK"])
try:
    if how == "version" and number == 1:
        other_version()
    dist.init()
    run(dist.rank())
except mx.MXNetError as error:
    report(number, {"kind": type(error).__name__, "text": str(error)})
    raise
report(number, None)
