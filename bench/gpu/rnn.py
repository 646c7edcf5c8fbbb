"""Recurrent layers on one GPU, compared with PyTorch's (cuDNN's) if it is installed: microseconds per call.

    python bench/gpu/rnn.py [--cells LSTM,GRU,RNN] [--sizes 35x20x650,100x32x256,50x64x512] [--seconds 0.2] [--peers]

A size is steps x batch x units; inputs are as wide as the state.  Columns: forward alone, and forward with backward.
"""
import argparse
import subprocess
import sys

from models import median_seconds
from peer_graph import as_graph

SHAPES = ((1, False), (2, False), (1, True))  # layers, both directions


def ours(cell, steps, batch, units, layers, both):
    import mxnet as mx
    from mxnet import autograd, gluon, nd
    context = mx.gpu(0)
    net = getattr(gluon.rnn, cell)(units, layers, bidirectional=both, input_size=units,
                                   **({"activation": "tanh"} if cell == "RNN" else {}))
    net.initialize(mx.init.Uniform(units ** -0.5), ctx=context)
    net.hybridize(static_alloc=True, static_shape=True)
    x = nd.random.normal(shape=(steps, batch, units), ctx=context)
    x.attach_grad()
    slopes = nd.random.normal(shape=(steps, batch, units * (1 + both)), ctx=context)

    def train():
        with autograd.record():
            y = net(x)
        y.backward(slopes)
    return (lambda: net(x)), train, nd.waitall


def peers(cell, steps, batch, units, layers, both):
    import torch
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    net = getattr(torch.nn, cell)(units, units, layers, bidirectional=both).cuda()
    x = torch.randn(steps, batch, units, device="cuda", requires_grad=True)
    slopes = torch.randn(steps, batch, units * (1 + both), device="cuda")

    def forward():
        with torch.no_grad():
            net(x)

    def train():
        net.zero_grad(set_to_none=True)
        x.grad = None
        net(x)[0].backward(slopes)
    return forward, train, torch.cuda.synchronize


def rows(options):
    for cell in options.cells.split(","):
        for size in options.sizes.split(","):
            for layers, both in SHAPES:
                make = peers if options.peer else ours
                forward, train, wait = make(cell, *map(int, size.split("x")), layers, both)
                ways = [("eager", lambda f: f), ("CUDA graph", as_graph)] if options.peer else [("", lambda f: f)]
                for name, way in ways:
                    times = [median_seconds(way(f), wait, options.seconds, 10) * 1e6 for f in (forward, train)]
                    who = f"pytorch {name}" if options.peer else "gluon"
                    print(f"{cell:5} {size:11} {layers} layer{'s' * (layers > 1):1} {'both' * both:4}  {who:18} "
                          f"{times[0]:9.1f} {times[1]:9.1f} us", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", default="LSTM,GRU,RNN")
    parser.add_argument("--sizes", default="35x20x650,100x32x256,50x64x512")
    parser.add_argument("--seconds", type=float, default=0.2)
    parser.add_argument("--peers", action="store_true", help="run PyTorch as well")
    parser.add_argument("--peer", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    rows(options)
    if options.peers:
        return subprocess.call([sys.executable, __file__, "--peer", "--cells", options.cells, "--sizes", options.sizes,
                                "--seconds", str(options.seconds)])
    return 0


if __name__ == "__main__":
    sys.exit(main())
