"""A variational autoencoder on Fashion-MNIST: learns two numbers per image from which it reconstructs the image."""
import argparse

import mxnet as mx
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn
from mxnet.gluon.data.vision import FashionMNIST


class VAE(gluon.HybridBlock):
    def __init__(self, hidden=200, latent=2, pixels=784, **kwargs):
        super().__init__(**kwargs)
        self._latent = latent
        with self.name_scope():
            self.encoder = nn.HybridSequential()
            self.encoder.add(nn.Dense(hidden, activation="relu"), nn.Dense(2 * latent))
            self.decoder = nn.HybridSequential()
            self.decoder.add(nn.Dense(hidden, activation="relu"), nn.Dense(pixels))

    def hybrid_forward(self, F, x, noise):
        """Negative evidence lower bound per image: reconstruction + divergence from a normal distribution."""
        mean, log_variance = F.split(self.encoder(x), num_outputs=2, axis=1)
        z = mean + F.exp(0.5 * log_variance) * noise
        logits = self.decoder(z)
        reconstruction = F.sum(F.relu(logits) - logits * x + F.log1p(F.exp(-F.abs(logits))), axis=1)
        divergence = -0.5 * F.sum(1 + log_variance - F.square(mean) - F.exp(log_variance), axis=1)
        return reconstruction + divergence


def show(image):
    """28x28 numbers in [0, 1] as text."""
    shades = " .:-=+*#%@"
    for row in image[::2]:
        print("".join(shades[min(9, int(v * 10))] for v in row))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--examples", type=int, default=20000)
    args = parser.parse_args()
    mx.random.seed(1)
    images = FashionMNIST(train=True)._data[:args.examples].astype("float32").reshape((0, -1)) / 255
    batches = gluon.data.DataLoader(gluon.data.ArrayDataset(images), 100, shuffle=True)
    net = VAE()
    net.initialize(mx.init.Xavier())
    net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.001})
    for epoch in range(args.epochs):
        total = 0.0
        for x in batches:
            x = x.as_in_context(mx.current_context())
            noise = nd.random.normal(shape=(x.shape[0], 2))
            with autograd.record():
                loss = net(x, noise)
            loss.backward()
            trainer.step(x.shape[0])
            total += float(loss.mean())
        print(f"epoch {epoch + 1}: loss {total / len(batches):.2f}")
    show(nd.sigmoid(net.decoder(nd.array([[0.5, -0.5]]))).reshape((28, 28)).asnumpy())


if __name__ == "__main__":
    main()
