"""A child-sum Tree-LSTM over random expression trees: the network has a different shape for every example.

It learns the sign of sums and differences of numbers; control flow is plain Python, recorded as it runs.
"""
import random

import mxnet as mx
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn


class Tree:
    """A leaf with a number, or an operation on children."""

    def __init__(self, value=None, children=(), sign=1):
        self.value, self.children, self.sign = value, children, sign

    def evaluate(self):
        if not self.children:
            return self.value
        left, right = (child.evaluate() for child in self.children)
        return left + self.sign * right


def random_tree(depth, rng):
    if depth == 0 or rng.random() < 0.2:
        return Tree(rng.uniform(-1, 1))
    return Tree(children=(random_tree(depth - 1, rng), random_tree(depth - 1, rng)), sign=rng.choice((1, -1)))


class ChildSumLSTM(gluon.Block):
    def __init__(self, hidden, **kwargs):
        super().__init__(**kwargs)
        self._hidden = hidden
        with self.name_scope():
            self.gates = nn.Dense(3 * hidden, in_units=2 + hidden)  # input, output, update
            self.forget = nn.Dense(hidden, in_units=2 + hidden)
            self.answer = nn.Dense(2, in_units=hidden)

    def node(self, tree):
        """Hidden state and cell of a tree, computed from its children."""
        states = [self.node(child) for child in tree.children]
        x = nd.array([[tree.value or 0.0, tree.sign if tree.children else 0.0]])
        total = nd.add_n(*[h for h, _ in states]) if states else nd.zeros((1, self._hidden))
        i, o, u = nd.split(self.gates(nd.concat(x, total, dim=1)), num_outputs=3, axis=1)
        cell = nd.sigmoid(i) * nd.tanh(u)
        for n, (h, c) in enumerate(states):
            side = 1.0 if n == 0 or tree.sign > 0 else -1.0
            cell = cell + side * nd.sigmoid(self.forget(nd.concat(x, h, dim=1))) * c
        return nd.sigmoid(o) * nd.tanh(cell), cell

    def forward(self, tree):
        return self.answer(self.node(tree)[0])


def main(trees=600, epochs=4, hidden=16, seed=1):
    rng = random.Random(seed)
    mx.random.seed(seed)
    examples = [random_tree(3, rng) for _ in range(trees)]
    net = ChildSumLSTM(hidden)
    net.initialize(mx.init.Xavier())
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.01})
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    for epoch in range(epochs):
        total, right = 0.0, 0
        for tree in examples:
            label = int(tree.evaluate() > 0)
            with autograd.record():
                scores = net(tree)
                loss = loss_of(scores, nd.array([label]))
            loss.backward()
            trainer.step(1, ignore_stale_grad=True)  # a lone leaf does not use the forget gate
            total += float(loss)
            right += int(scores.argmax(axis=1).asscalar()) == label
        print(f"epoch {epoch + 1}: loss {total / trees:.4f}, {100 * right / trees:.1f} % right")
    return right / trees


if __name__ == "__main__":
    main()
