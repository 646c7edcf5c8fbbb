"""A function with a custom gradient: autograd.Function, checked against finite differences."""
import mxnet as mx
from mxnet import autograd, nd
from mxnet.test_utils import assert_almost_equal


class Sigmoid(autograd.Function):
    def forward(self, x):
        y = 1 / (1 + nd.exp(-x))
        self.save_for_backward(y)
        return y

    def backward(self, dy):
        y, = self.saved_tensors
        return dy * y * (1 - y)


def main():
    mx.random.seed(1)
    x = nd.random.uniform(-3, 3, shape=(5,))
    x.attach_grad()
    with autograd.record():
        y = Sigmoid()(x)
    y.backward()
    step = 1e-2
    slope = (nd.sigmoid(x + step) - nd.sigmoid(x - step)) / (2 * step)
    print("gradient          ", x.grad.asnumpy())
    print("finite differences", slope.asnumpy())
    assert_almost_equal(x.grad, slope, rtol=1e-3, atol=1e-4)


if __name__ == "__main__":
    main()
