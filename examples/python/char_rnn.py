"""A character RNN: a GRU learns to predict a text letter by letter, then generates one.

    python char_rnn.py                 the story in ../data
    python char_rnn.py --quick         a few seconds

Examples are random windows of the text; the entire training step is one plan (gluon.TrainStep).
"""
import argparse
import os
import random

import mxnet as mx
from mxnet import gluon, nd
from mxnet.gluon import nn, rnn

STORY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "harbour.txt")


class CharacterModel(gluon.HybridBlock):
    """Letters to vectors, a GRU, scores of the next letter."""

    def __init__(self, letters, size, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.embed = nn.Embedding(letters, 32)
            self.gru = rnn.GRU(size, layout="NTC", input_size=32)
            self.scores = nn.Dense(letters, flatten=False, in_units=size)

    def hybrid_forward(self, F, letters):  # (N, T)
        return self.scores(self.gru(self.embed(letters)))

    def step(self, letter, state):
        """Scores of the letter after one letter, and the state."""
        output, state = self.gru(self.embed(nd.array([[letter]])), state)
        return self.scores(output)[0, 0], state


def sample(net, names, start, length, temperature):
    """Letters drawn one after the other."""
    state, written = net.gru.begin_state(batch_size=1), [names.index(letter) for letter in start]
    for i in range(len(written) + length - 1):
        scores, state = net.step(written[i], state)
        if i + 1 == len(written):
            written.append(int(nd.random.multinomial(nd.softmax(scores / temperature)).asscalar()))
    return "".join(names[i] for i in written)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text", default=STORY)
    parser.add_argument("--iterations", type=int, default=600)
    parser.add_argument("--size", type=int, default=192)
    parser.add_argument("--window", type=int, default=64)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--temperature", type=float, default=0.6)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="a small network, few iterations")
    options = parser.parse_args()
    if options.quick:
        options.iterations, options.size = 80, 64

    mx.random.seed(options.seed)
    rng = random.Random(options.seed)
    with open(options.text, encoding="utf-8") as file:
        text = file.read()
    names = sorted(set(text))
    numbers = [names.index(letter) for letter in text]
    net = CharacterModel(len(names), options.size)
    net.initialize(mx.init.Xavier())
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.005})
    step = gluon.TrainStep(net, gluon.loss.SoftmaxCrossEntropyLoss(), trainer)
    for iteration in range(1, options.iterations + 1):
        starts = [rng.randrange(len(numbers) - options.window) for _ in range(options.batch)]
        data = nd.array([numbers[at:at + options.window] for at in starts])
        label = nd.array([numbers[at + 1:at + options.window + 1] for at in starts])
        loss = step(data, label)
        if iteration == 1 or iteration % max(1, options.iterations // 8) == 0:
            print(f"iteration {iteration}: loss {loss.mean().asscalar():.3f}")
    print(sample(net, names, "The ", 200, options.temperature))


if __name__ == "__main__":
    main()
