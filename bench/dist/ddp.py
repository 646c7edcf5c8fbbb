"""Training steps of several processes: ours beside PyTorch's DistributedDataParallel (Gloo), in turns.

    python bench/dist/ddp.py --torch PYTHON [--processes 2] [--seconds 5] [--models lenet resnet18 lstm]

PYTHON is the interpreter of an environment that has torch.  Networks, batches and the optimizer are those of train.py; every
process has one thread.  Columns: samples/s of all processes, ratio: ours / PyTorch.  With --inner the program is one of PyTorch's
processes.  SPDX-License-Identifier: Apache-2.0
"""
import os
import socket
import subprocess
import sys
import time

from common import BATCH, compare, parser_of_two, samples_per_second


def resnet18(nn, torch):
    """For small images: no pooling and no stride at the start, as train.py's."""
    class Unit(nn.Module):
        def __init__(self, inside, outside, stride):
            super().__init__()
            self.a, self.b = nn.Conv2d(inside, outside, 3, stride, 1, bias=False), nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
            self.na, self.nb = nn.BatchNorm2d(outside), nn.BatchNorm2d(outside)
            self.short = nn.Sequential() if inside == outside else nn.Sequential(
                nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside))

        def forward(self, x):
            return torch.relu(self.nb(self.b(torch.relu(self.na(self.a(x))))) + self.short(x))

    units, last = [], 64
    for width, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        units += [Unit(last, width, stride), Unit(width, width, 1)]
        last = width
    return nn.Sequential(nn.Conv2d(1, 64, 3, 1, 1, bias=False), *units, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


def lenet(nn):
    return nn.Sequential(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10))


def lstm(nn):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.lstm = nn.Embedding(2000, 128), nn.LSTM(128, 256, batch_first=True)
            self.scores = nn.Linear(256, 2000)

        def forward(self, words):
            return self.scores(self.lstm(self.embed(words))[0])
    return Model()


def inner(name, seconds):
    """Steps for some seconds; rank 0 prints samples/s of all."""
    import torch
    import torch.distributed as dist
    from torch import nn
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(1)
    batch = BATCH // dist.get_world_size()
    net = {"resnet18": lambda: resnet18(nn, torch), "lenet": lambda: lenet(nn), "lstm": lambda: lstm(nn)}[name]()
    net = nn.parallel.DistributedDataParallel(net)
    data = torch.randint(0, 2000, (batch, 35)) if name == "lstm" else torch.rand(batch, 1, 28, 28)
    label = torch.randint(0, 2000, (batch * 35,)) if name == "lstm" else torch.randint(0, 10, (batch,))
    optimizer, criterion = torch.optim.SGD(net.parameters(), 0.01, momentum=0.9), nn.CrossEntropyLoss()

    def steps(count):
        start = time.time()
        for _ in range(count):
            optimizer.zero_grad()
            scores = net(data)
            criterion(scores.reshape(-1, scores.shape[-1]), label).backward()
            optimizer.step()
        return time.time() - start

    def agree(count):
        shared = torch.tensor([count])
        dist.broadcast(shared, 0)
        return int(shared)

    rate = samples_per_second(steps, seconds, agree)
    if dist.get_rank() == 0:
        print(f"{rate:.1f}", flush=True)
    dist.destroy_process_group()


def theirs(python, name, processes, seconds):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [python, os.path.abspath(__file__), "--inner", name, "--seconds", str(seconds)]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(processes)}
    env.pop("PYTHONPATH", None)
    started = [subprocess.Popen(command, env={**env, "RANK": str(rank)}, text=True, stdout=subprocess.PIPE)
               for rank in range(processes)]
    outputs = [process.communicate(timeout=600)[0] for process in started]
    if any(process.returncode for process in started):
        raise RuntimeError(f"PyTorch failed on {name}")
    return float(outputs[0].split()[-1])


def main():
    parser = parser_of_two()
    parser.add_argument("--torch")
    args = parser.parse_args()
    if args.inner:
        return inner(args.inner, args.seconds)
    if not args.torch:
        parser.error("--torch PYTHON: an interpreter that has torch")
    import train
    return compare(args, ("PyTorch", "ours"), lambda name: theirs(args.torch, name, args.processes, args.seconds),
                   lambda name: train.measure(name, args.processes, 1, args.seconds))


if __name__ == "__main__":
    sys.exit(main())
