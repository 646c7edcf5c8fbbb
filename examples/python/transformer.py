"""A small Transformer that learns to reverse sequences.

    python transformer.py              until nearly every sequence is right, about half a minute
    python transformer.py --quick      shorter sequences, a few seconds

The encoder reads digits of varying number (padding is masked by valid_length); the decoder writes them backwards, one
after the other, and sees only its previous output.
"""
import argparse
import time

import numpy as np

import mxnet as mx
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn

DIGITS, BEGIN, PAD = 10, 10, 11


class Reverser(gluon.HybridBlock):
    """Encoder and decoder over one embedding."""

    def __init__(self, units, heads, layers, **kwargs):
        super().__init__(**kwargs)
        sizes = {"num_layers": layers, "units": units, "hidden_size": 4 * units, "num_heads": heads, "dropout": 0.0,
                 "pre_norm": True}
        with self.name_scope():
            self.embed = nn.Embedding(12, units)
            self.positions = nn.SinusoidalPositionalEmbedding(units)
            self.encoder = nn.TransformerEncoder(**sizes)
            self.decoder = nn.TransformerDecoder(**sizes)
            self.scores = nn.Dense(DIGITS, flatten=False, in_units=units)

    def hybrid_forward(self, F, source, target, lengths):  # (N, T), (N, T), (N,)
        memory = self.encoder(self.positions(self.embed(source)), lengths)
        return self.scores(self.decoder(self.positions(self.embed(target)), memory, None, lengths))


def batch(rng, size, longest):
    """Digits, the same reversed and shifted by one, the same reversed, lengths."""
    lengths = rng.integers(2, longest + 1, size)
    source = rng.integers(0, DIGITS, (size, longest))
    reverse, shifted = np.zeros_like(source), np.full_like(source, BEGIN)
    for i, length in enumerate(lengths):
        source[i, length:] = PAD
        reverse[i, :length] = source[i, :length][::-1]
    shifted[:, 1:] = reverse[:, :-1]
    return [nd.array(x) for x in (source, shifted, reverse, lengths)]


def write(net, source, lengths):
    """The network's output, digit by digit."""
    longest = source.shape[1]
    written = np.full((source.shape[0], longest), BEGIN)
    for i in range(longest):
        scores = net(source, nd.array(written), lengths)[:, i].argmax(axis=1).asnumpy()
        if i + 1 < longest:
            written[:, i + 1] = scores
    return np.concatenate([written[:, 1:], scores[:, None]], axis=1).astype(int)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--iterations", type=int, default=1200)
    parser.add_argument("--longest", type=int, default=10)
    parser.add_argument("--units", type=int, default=64)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="short sequences, one layer")
    options = parser.parse_args()
    if options.quick:
        options.iterations, options.longest, options.layers, options.units = 150, 4, 1, 32

    mx.random.seed(options.seed)
    rng = np.random.default_rng(options.seed)
    net = Reverser(options.units, 4, options.layers)
    net.initialize(mx.init.Xavier())
    net.hybridize()
    criterion = gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.002})
    start = time.time()
    for iteration in range(1, options.iterations + 1):
        source, shifted, reverse, lengths = batch(rng, options.batch, options.longest)
        inside = nd.array(np.arange(options.longest)[None, :] < lengths.asnumpy()[:, None])
        trainer.set_learning_rate(0.002 * min(1, iteration / 50))
        with autograd.record():
            loss = criterion(net(source, shifted, lengths), reverse, inside.expand_dims(2))
        loss.backward()
        trainer.step(options.batch)
        if iteration == 1 or iteration % max(1, options.iterations // 6) == 0:
            print(f"iteration {iteration}: loss {loss.mean().asscalar():.4f}, {time.time() - start:.0f} s")

    source, _, reverse, lengths = batch(rng, 200, options.longest)
    written, wanted = write(net, source, lengths), reverse.asnumpy().astype(int)
    right = sum((written[i, :n] == wanted[i, :n]).all() for i, n in enumerate(lengths.asnumpy().astype(int)))
    print(f"{' '.join(str(d) for d in source[0].asnumpy().astype(int) if d < DIGITS)}  ->  "
          f"{' '.join(map(str, written[0, :int(lengths[0].asscalar())]))}")
    print(f"{right / 2:.1f} % of new sequences are reversed without a mistake")


if __name__ == "__main__":
    main()
