"""Prediction on one GPU: latency of batch 1, images per second of batch 32, compared with PyTorch (channels last; eager, and
compiled with CUDA graphs) if it is installed.

    python bench/gpu/predict.py [--rows resnet50,resnet50_bf16,mobilenet] [--batches 1,32] [--seconds 1] [--peers] [--profile]

Each row is a process of its own.  A call of batch 1 is waited for, as a server does; larger batches are queued in groups.
"""
import argparse
import os
import subprocess
import sys

import ours
import peers
from models import median_seconds, profiled

ROWS = ("resnet50", "resnet50_bf16", "mobilenet")


def our_call(row, batch):
    import mxnet as mx
    from mxnet import nd
    net = ours.networks()[row]()
    net.initialize(mx.init.Xavier(), ctx=mx.gpu(0))
    x = nd.random.uniform(shape=(batch, 3, 224, 224), ctx=mx.gpu(0))
    net(x)
    if row.endswith("bf16"):
        net.cast("bfloat16")
        x = x.astype("bfloat16")
    net.hybridize(static_alloc=True, static_shape=True)
    return {"gluon": (lambda: net(x), nd.waitall)}


def peer_calls(row, batch):
    import torch
    peers.settings()
    kind = torch.bfloat16 if row.endswith("bf16") else torch.float32
    net = (peers.mobilenet() if row == "mobilenet" else peers.resnet50()).cuda().eval()
    net = net.to(dtype=kind, memory_format=torch.channels_last)
    x = torch.rand(batch, 3, 224, 224, device="cuda").to(dtype=kind, memory_format=torch.channels_last)
    compiled = torch.compile(net, mode="reduce-overhead")

    def call(network):
        def run():
            with torch.no_grad():
                return network(x)
        return run
    return {"pytorch eager": (call(net), torch.cuda.synchronize),
            "pytorch compiled": (call(compiled), torch.cuda.synchronize)}


def run_row(row, options):
    for batch in map(int, options.batches.split(",")):
        for who, (call, wait) in (peer_calls if options.peer else our_call)(row, batch).items():
            for _ in range(5):
                call()
            wait()
            seconds = median_seconds(call, wait, options.seconds, 1 if batch == 1 else 20)
            print(f"{row:14} b{batch:<4} {who:18} {seconds * 1e3:8.3f} ms  {batch / seconds:9.0f} img/s", flush=True)
            if options.profile:
                profiled(call, wait)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", default=",".join(ROWS))
    parser.add_argument("--batches", default="1,32")
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--peers", action="store_true", help="run PyTorch as well")
    parser.add_argument("--profile", action="store_true", help="wait for every launch and list time by operator")
    parser.add_argument("--row", help=argparse.SUPPRESS)
    parser.add_argument("--peer", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.row:
        return run_row(options.row, options)
    rest = [f"--seconds={options.seconds}", f"--batches={options.batches}"]
    waiting = dict(os.environ, CUDA_LAUNCH_BLOCKING="1", GLUON_CUDA_GRAPHS="0")
    for row in options.rows.split(","):
        subprocess.run([sys.executable, __file__, "--row", row, *rest], check=False)
        if options.peers:
            subprocess.run([sys.executable, __file__, "--row", row, "--peer", *rest], check=False)
        if options.profile:
            subprocess.run([sys.executable, __file__, "--row", row, "--profile", *rest], check=False, env=waiting)


if __name__ == "__main__":
    sys.exit(main())
