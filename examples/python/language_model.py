"""A word-level language model: an LSTM learns to predict the next word.

    python language_model.py                           the story in ../data, some seconds
    python language_model.py --text /usr/share/common-licenses/GPL-3 --epochs 20
    python language_model.py --quick                   a few seconds
    gluon run -n 2 -- python language_model.py         two processes, each with half of the strands

Text is split into `batch` long strands; a step reads `steps` words of each, and the state of the LSTM is carried over to
the next step (detached: gradients do not flow back further).  Perplexity is the effective number of equally likely next
words.
"""
import argparse
import math
import os
import re
import time

import mxnet as mx
import mxnet.distributed as dist
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn, rnn

STORY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "harbour.txt")


class LanguageModel(gluon.HybridBlock):
    """Words to vectors, a stacked LSTM, scores of the next word."""

    def __init__(self, vocabulary, size, layers, dropout, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.drop = nn.Dropout(dropout)
            self.embed = nn.Embedding(vocabulary, size)
            self.lstm = rnn.LSTM(size, layers, dropout=dropout, input_size=size)
            self.scores = nn.Dense(vocabulary, flatten=False, in_units=size)

    def hybrid_forward(self, F, words, h, c):  # (T, N), states (layers, N, size)
        output, states = self.lstm(self.drop(self.embed(words)), [h, c])
        return self.scores(self.drop(output)), states[0], states[1]


def read_words(path):
    """The text as indices, and the words that they index."""
    with open(path, encoding="utf-8") as file:
        words = re.findall(r"\w+|[^\w\s]", file.read().lower())
    names = sorted(set(words))
    number = {word: i for i, word in enumerate(names)}
    return [number[word] for word in words], names


def strands(numbers, batch):
    """(T, N): the text split into parallel strands, of which this process has its part."""
    if batch % dist.size():
        raise SystemExit(f"--batch {batch} cannot be divided among {dist.size()} processes")
    length, part = len(numbers) // batch, batch // dist.size()
    text = nd.array(numbers[:length * batch]).reshape((batch, length))
    return text[dist.rank() * part:(dist.rank() + 1) * part].T


def zeros(net, batch):
    return net.lstm.begin_state(batch_size=batch)


def train_epoch(net, trainer, text, steps):
    """The mean loss of a word, over all processes."""
    criterion = gluon.loss.SoftmaxCrossEntropyLoss()
    states, total, count = zeros(net, text.shape[1]), 0.0, 0
    for at in range(0, text.shape[0] - 1, steps):
        data, following = text[at:at + steps], text[at + 1:at + steps + 1]
        data = data[:following.shape[0]]
        states = [state.detach() for state in states]
        with autograd.record():
            scores, *states = net(data, *states)
            loss = criterion(scores.reshape((-1, scores.shape[2])), following.reshape((-1,)))
        loss.backward()
        words = data.size * dist.size()
        trainer.allreduce_grads()  # clipping needs the sum over all processes
        gluon.utils.clip_global_norm([p.grad() for p in net.collect_params().values()], 5.0 * words)
        trainer.update(words)
        total += loss.sum().asscalar()
        count += loss.size
    total, count = dist.allreduce(nd.array([total, count], dtype="float64"), op="sum").asnumpy()
    return total / count


def continue_text(net, names, start, length):
    """Generated words, each the likeliest one of a draw."""
    states, words = zeros(net, 1), [names.index(word) for word in start.split()]
    for i in range(len(words) + length - 1):
        scores, *states = net(nd.array([[words[i]]]), *states)
        if i + 1 == len(words):
            words.append(int(nd.random.multinomial(nd.softmax(scores[0, 0] * 1.5)).asscalar()))
    text = " ".join(names[word] for word in words)
    return re.sub(r" ([,.;:!?])", r"\1", text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text", default=STORY)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--dropout", type=float, default=0.2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="a small model, few epochs")
    options = parser.parse_args()
    if options.quick:
        options.epochs, options.size, options.layers = 6, 48, 1

    mx.random.seed(options.seed)
    numbers, names = read_words(options.text)
    text = strands(numbers, options.batch)
    net = LanguageModel(len(names), options.size, options.layers, options.dropout)
    net.initialize(mx.init.Xavier())
    net.hybridize()
    several = dist.size() > 1
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.01},
                            kvstore="dist_sync" if several else "device", update_on_kvstore=False if several else None)
    if several:
        mx.random.seed(options.seed + dist.rank())  # other dropout on each process
    if dist.rank() > 0:
        return [train_epoch(net, trainer, text, options.steps) for _ in range(options.epochs)][-1]
    print(f"{len(numbers)} words, {len(names)} different ones, "
          f"{sum(p.data().size for p in net.collect_params().values())} parameters")
    start = time.time()
    for epoch in range(options.epochs):
        loss = train_epoch(net, trainer, text, options.steps)
        if epoch == 0 or (epoch + 1) % max(1, options.epochs // 8) == 0:
            print(f"epoch {epoch + 1}: loss {loss:.3f}, perplexity {math.exp(loss):.1f}, "
                  f"{(epoch + 1) * text.size * dist.size() / (time.time() - start):.0f} words/s", flush=True)
    print(continue_text(net, names, "the" if "the" in names else names[0], 40))
    return loss


if __name__ == "__main__":
    main()
