"""Linear regression twice: from scratch with arrays and autograd, then with Gluon.  Both find the true weights."""
import mxnet as mx
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn

TRUE_W, TRUE_B = nd.array([2.0, -3.4]), 4.2


def data(examples=1000):
    x = nd.random.normal(shape=(examples, 2))
    y = nd.dot(x, TRUE_W) + TRUE_B + nd.random.normal(scale=0.01, shape=(examples,))
    return gluon.data.DataLoader(gluon.data.ArrayDataset(x, y), batch_size=10, shuffle=True)


def from_scratch(batches, epochs=3, lr=0.03):
    w, b = nd.random.normal(scale=0.01, shape=(2, 1)), nd.zeros((1,))
    for parameter in (w, b):
        parameter.attach_grad()
    for epoch in range(epochs):
        for x, y in batches:
            with autograd.record():
                loss = (nd.dot(x, w) + b - y.reshape((-1, 1))) ** 2 / 2
            loss.backward()
            for parameter in (w, b):
                parameter[:] = parameter - lr * parameter.grad / x.shape[0]
        print(f"  epoch {epoch + 1}: loss {float(loss.mean()):.6f}")
    return w.reshape((-1,)), b


def with_gluon(batches, epochs=3, lr=0.03):
    net = nn.Dense(1)
    net.initialize(mx.init.Normal(0.01))
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": lr})
    loss_of = gluon.loss.L2Loss()
    for epoch in range(epochs):
        for x, y in batches:
            with autograd.record():
                loss = loss_of(net(x), y)
            loss.backward()
            trainer.step(x.shape[0])
        print(f"  epoch {epoch + 1}: loss {float(loss.mean()):.6f}")
    return net.weight.data().reshape((-1,)), net.bias.data()


def main():
    mx.random.seed(1)
    batches = data()
    for name, method in (("from scratch", from_scratch), ("with Gluon", with_gluon)):
        print(name)
        w, b = method(batches)
        print(f"  weights {w.asnumpy()} (true {TRUE_W.asnumpy()}), bias {float(b):.3f} (true {TRUE_B})")


if __name__ == "__main__":
    main()
