"""JAX: the counterparts of the Gluon programs, compiled with jit.  SPDX-License-Identifier: Apache-2.0"""
import os

from timing import Workloads, threads

if threads() == 1:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # the only way to tell its thread pool
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

from workloads import BATCH, MLP  # noqa: E402

work = Workloads("jax", jax.__version__)


def finishing(call):
    """The call and what waits for its last result."""
    last = [None]

    def run():
        last[0] = call()
    return run, lambda: jax.block_until_ready(last[0])


@work("add", "eager")
def add():
    a, b = jnp.ones(16), jnp.ones(16)
    return finishing(lambda: a + b)


@work("add_recorded", "jit of the gradient")
def add_recorded():
    a, b = jnp.ones(16), jnp.ones(16)
    gradient = jax.jit(jax.value_and_grad(lambda x, y: (x + y).sum()))
    return finishing(lambda: gradient(a, b))


@work("reshape", "eager")
def reshape():
    x = jnp.ones((4, 4))
    return finishing(lambda: x.reshape((2, 8)))


@work("index", "eager")
def index():
    x = jnp.ones((4, 4))
    return finishing(lambda: x[0])


@work("dot", "eager")
def dot():
    a, b = jnp.ones((4, 4)), jnp.ones((4, 4))
    return finishing(lambda: jnp.dot(a, b))


def small_dense(layers):
    x, weights = jnp.ones((4, 16)), [(jnp.ones((16, 16)), jnp.ones(16))] * layers

    @jax.jit
    def run(values, data):
        for weight, bias in values:
            data = data @ weight.T + bias
        return data
    return finishing(lambda: run(weights, x))


work("dense", "jit")(lambda: small_dense(1))
work("sequential", "jit")(lambda: small_dense(3))


# ---- networks -------------------------------------------------------------------------------------------------------

def weights(*shape):
    return jnp.asarray(np.random.uniform(-0.1, 0.1, shape), "float32")


def dense_weights(sizes):
    return [(weights(before, units), jnp.zeros(units)) for before, units in zip(sizes, sizes[1:])]


def dense_layers(values, x):
    for weight, bias in values[:-1]:
        x = jax.nn.relu(x @ weight + bias)
    return x @ values[-1][0] + values[-1][1]


def mlp():
    return dense_weights(MLP), dense_layers, (MLP[0],)


def lenet():
    convolutions = [(weights(6, 1, 5, 5), jnp.zeros((6, 1, 1))), (weights(16, 6, 5, 5), jnp.zeros((16, 1, 1)))]
    values = {"convolutions": convolutions, "dense": dense_weights((400, 120, 84, 10))}

    def pool(x):
        return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")

    def run(values, x):  # (N, 1, 28, 28)
        for (weight, bias), padding in zip(values["convolutions"], (2, 0)):
            x = jax.lax.conv_general_dilated(x, weight, (1, 1), [(padding, padding)] * 2) + bias
            x = pool(jax.nn.relu(x))
        return dense_layers(values["dense"], x.reshape(x.shape[0], -1))
    return values, run, (1, 28, 28)


def training(make):
    values, run, shape = make()
    data = jnp.asarray(np.random.uniform(size=(BATCH,) + shape), "float32")
    label = jnp.asarray(np.random.randint(0, 10, BATCH))

    def loss(parameters):
        scores = jax.nn.log_softmax(run(parameters, data))
        return -jnp.take_along_axis(scores, label[:, None], 1).mean()

    def update(parameters, momentum):
        value, gradient = jax.value_and_grad(loss)(parameters)
        momentum = jax.tree_util.tree_map(lambda m, g: 0.9 * m - 0.001 * g, momentum, gradient)
        return value, jax.tree_util.tree_map(jnp.add, parameters, momentum), momentum

    compiled = jax.jit(update, donate_argnums=(0, 1))
    state = [values, jax.tree_util.tree_map(jnp.zeros_like, values)]

    def step():
        value, state[0], state[1] = compiled(*state)
        value.block_until_ready()
    return step


def inference(make, batch):
    values, run, shape = make()
    data = jnp.asarray(np.random.uniform(size=(batch,) + shape), "float32")
    compiled = jax.jit(run)
    return lambda: compiled(values, data).block_until_ready()


work("mlp_train", "jit")(lambda: training(mlp))
work("lenet_train", "jit")(lambda: training(lenet))
work("mlp_infer", "jit")(lambda: inference(mlp, BATCH))
work("lenet_infer", "jit")(lambda: inference(lenet, BATCH))
work("lenet_infer1", "jit")(lambda: inference(lenet, 1))

if __name__ == "__main__":
    work.serve()
