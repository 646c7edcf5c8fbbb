"""A small generative adversarial network: a generator learns to produce points of a given normal distribution."""
import mxnet as mx
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn

A = nd.array([[1.0, 2.0], [-0.1, 0.5]])
B = nd.array([1.0, 2.0])


def real_points(count):
    return nd.dot(nd.random.normal(shape=(count, 2)), A) + B


def discriminator():
    net = nn.HybridSequential()
    with net.name_scope():
        net.add(nn.Dense(5, activation="tanh"), nn.Dense(3, activation="tanh"), nn.Dense(1))
    return net


def main(steps=2000, batch=32, seed=1):
    mx.random.seed(seed)
    net_g, net_d = nn.Dense(2), discriminator()
    for net in (net_g, net_d):
        net.initialize(mx.init.Normal(0.02))
    trainer_g = gluon.Trainer(net_g.collect_params(), "adam", {"learning_rate": 0.005})
    trainer_d = gluon.Trainer(net_d.collect_params(), "adam", {"learning_rate": 0.05})
    loss_of = gluon.loss.SigmoidBinaryCrossEntropyLoss()
    ones, zeros = nd.ones((batch, 1)), nd.zeros((batch, 1))
    for step in range(steps):
        real, noise = real_points(batch), nd.random.normal(shape=(batch, 2))
        with autograd.record():
            fake = net_g(noise)
            loss_d = loss_of(net_d(real), ones) + loss_of(net_d(fake.detach()), zeros)
        loss_d.backward()
        trainer_d.step(batch)
        with autograd.record():
            loss_g = loss_of(net_d(net_g(noise)), ones)
        loss_g.backward()
        trainer_g.step(batch)
        if (step + 1) % 400 == 0:
            print(f"step {step + 1}: discriminator {float(loss_d.mean()):.3f}, generator {float(loss_g.mean()):.3f}")
    made = net_g(nd.random.normal(shape=(2000, 2)))
    mean = made.mean(axis=0)
    print(f"mean of the points {mean.asnumpy()}, of real ones {B.asnumpy()}")
    return float((mean - B).norm())


if __name__ == "__main__":
    main()
