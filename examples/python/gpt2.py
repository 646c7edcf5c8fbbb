"""GPT-2 on a small text: training, a checkpoint, generated text.

    python gpt2.py                                       the story in ../data, about a minute
    python gpt2.py --text FILE --layers 6 --units 256 --length 128 --steps 2000 --gpu
    python gpt2.py --resume                              goes on from the last checkpoint in this folder
    python gpt2.py --weights model.safetensors --tokenizer FOLDER [--network gpt2_124m]      no training: published parameters,
                                                         and the folder of the vocab.json and merges.txt that belong to them
    python gpt2.py --quick                               a few seconds

Tokens are bytes, with --tokenizer pieces of words.

A training step is one compiled plan (TrainStep).  Generating is two more: one reads the prompt, the other runs for every
token after it and looks only at the newest token and at the cached keys and values of the others.
"""
import argparse
import os
import sys
import time

import mxnet as mx
import numpy as np
from mxnet import gluon, nd
from mxnet.gluon import model_zoo
from mxnet.gluon.model_zoo import text

STORY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "harbour.txt")
BYTES = 256
SAVE_EVERY = 100


class Bytes:
    """The tokens of a text are its bytes."""

    def encode(self, text):
        return nd.array(np.frombuffer(text.encode(), "uint8"))

    def decode(self, tokens):
        return bytes(tokens).decode(errors="replace")


def windows(tokens, step, batch, length, ctx):
    """Windows of the text and the tokens that follow; which ones depends on the step alone."""
    at = np.random.RandomState(step).randint(0, len(tokens) - length, batch)[:, None] + np.arange(length)
    return nd.array(tokens[at], ctx=ctx), nd.array(tokens[at + 1], ctx=ctx)


def save_checkpoint(net, trainer, step):
    """gpt2.step names the newest complete pair of files, whenever the program is killed."""
    net.save_parameters(f"gpt2-{step:06}.params")
    trainer.save_states(f"gpt2-{step:06}.states")
    with open("gpt2.step.new", "w") as file:
        file.write(f"{step}\n")
    os.replace("gpt2.step.new", "gpt2.step")
    for suffix in ("params", "states"):
        if os.path.exists(f"gpt2-{step - SAVE_EVERY:06}.{suffix}"):
            os.remove(f"gpt2-{step - SAVE_EVERY:06}.{suffix}")


def load_checkpoint(net, trainer, ctx):
    """The step of the checkpoint; 0 if there is none."""
    if not os.path.exists("gpt2.step"):
        return 0
    with open("gpt2.step") as file:
        step = int(file.read())
    net.load_parameters(f"gpt2-{step:06}.params", ctx=ctx)
    trainer.load_states(f"gpt2-{step:06}.states")
    print(f"resumed after step {step}")
    return step


def train(net, tokens, options, ctx):
    schedule = mx.lr_scheduler.CosineScheduler(options.steps, base_lr=options.lr, final_lr=options.lr / 10, warmup_steps=20)
    trainer = gluon.Trainer(net.collect_params(), "adamw", {"learning_rate": options.lr, "beta2": 0.99, "wd": 0.1,
                                                            "lr_scheduler": schedule})
    step = gluon.TrainStep(net, gluon.loss.SoftmaxCrossEntropyLoss(), trainer)
    first = load_checkpoint(net, trainer, ctx) if options.resume else 0
    start, losses = time.time(), []
    for i in range(first, options.steps):
        mx.random.seed(options.seed * 1000003 + i)  # of dropout
        losses.append(step(*windows(tokens, i, options.batch, options.length, ctx)).mean().asscalar())
        if i == first or (i + 1) % max(1, options.steps // 10) == 0:
            speed = len(losses) * options.batch * options.length / (time.time() - start)
            print(f"step {i + 1:4}: loss {sum(losses) / len(losses):.3f}, {speed:.0f} tokens/s", flush=True)
            start, losses = time.time(), []
        if (i + 1) % SAVE_EVERY == 0 or i + 1 == options.steps:
            save_checkpoint(net, trainer, i + 1)


def generate(net, prompt, count, length, temperature, ctx):
    """Yields tokens that follow the prompt; the first call reads all of it, every other one a single token."""
    cache, fresh, known = net.begin_cache(1, length), prompt, 0
    while count and known + len(fresh) < length:
        scores, *cache = net(nd.array([fresh], ctx=ctx), nd.array([known], ctx=ctx), *cache)
        known += len(fresh)
        chances = nd.softmax(scores[0].astype("float32"), temperature=temperature)
        fresh, count = [int(nd.random.multinomial(chances).asscalar())], count - 1
        yield fresh[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text", default=STORY)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--units", type=int, default=128)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--length", type=int, default=128, help="tokens of a text")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--lr", type=float, default=0.002)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint in this folder")
    parser.add_argument("--weights", help="published parameters, .safetensors")
    parser.add_argument("--tokenizer", help="folder of the published vocab.json and merges.txt")
    parser.add_argument("--network", default="gpt2_124m", help="of these parameters")
    parser.add_argument("--prompt", default="The ")
    parser.add_argument("--tokens", type=int, default=200, help="how many are generated")
    parser.add_argument("--temperature", type=float, default=0.7)
    parser.add_argument("--quick", action="store_true", help="a small network, few steps")
    parser.add_argument("--gpu", action="store_true", help="on the first GPU")
    options = parser.parse_args()
    if options.quick:
        options.layers, options.units, options.length, options.steps = 2, 64, 32, 60
    ctx = mx.gpu(0) if options.gpu else mx.current_context()
    mx.random.seed(options.seed)
    if options.weights and not options.tokenizer:
        parser.error("--weights also wants --tokenizer, the folder of vocab.json and merges.txt")
    words = gluon.data.Tokenizer(options.tokenizer) if options.tokenizer else Bytes()
    with ctx:
        if options.weights:
            net = model_zoo.from_torch(options.network, options.weights)
        else:
            net = text.GPT2(num_layers=options.layers, units=options.units, num_heads=options.heads, vocab_size=BYTES,
                            max_length=options.length, dropout=0.1)
            net.initialize(mx.init.Normal(0.02), ctx=ctx)
            with open(options.text, "rb") as file:
                tokens = np.frombuffer(file.read(), "uint8")
            if len(tokens) <= options.length:
                sys.exit(f"'{options.text}' has {len(tokens)} bytes, expected more than {options.length}")
            train(net, tokens, options, ctx)
        net.hybridize()
        prompt = words.encode(options.prompt).asnumpy().astype(int).tolist()
        made, start = [], 0.0
        for token in generate(net, prompt, options.tokens, options.length, options.temperature, ctx):
            made.append(token)
            start = time.time() if len(made) == 2 else start  # both plans are compiled
        speed = (len(made) - 2) / (time.time() - start)
        print(options.prompt + words.decode(made))
        print(f"{len(made)} tokens, {speed:.0f} tokens/s")


if __name__ == "__main__":
    main()
