"""JAX: the counterparts of the Gluon programs, compiled with jit.  SPDX-License-Identifier: Apache-2.0"""
import os

from timing import Workloads, threads

if threads() == 1:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # the only way to configure its thread pool
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

from workloads import BATCH, LANGUAGE, LSTM, MLP, TRANSFORMER  # noqa: E402

work = Workloads("jax", jax.__version__)


def finishing(call):
    """The call and a function that waits for its last result."""
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
    return steps(values, lambda parameters: cross_entropy(run(parameters, data), label), 0.001, 0.9)


def cross_entropy(scores, label):
    return -jnp.take_along_axis(jax.nn.log_softmax(scores), label[..., None], -1).mean()


def steps(values, loss, rate, momentum):
    """A step of SGD as one compiled function."""

    def update(parameters, momenta):
        value, gradient = jax.value_and_grad(loss)(parameters)
        momenta = jax.tree_util.tree_map(lambda m, g: momentum * m - rate * g, momenta, gradient)
        return value, jax.tree_util.tree_map(jnp.add, parameters, momenta), momenta

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


# ---- sequences ------------------------------------------------------------------------------------------------------

def lstm_layer(values, x):  # (T, N, C)
    wx, wh, bias = values

    def step(state, gates):
        h, c = state
        i, f, g, o = jnp.split(gates + h @ wh, 4, axis=1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    zeros = jnp.zeros((x.shape[1], wh.shape[0]))
    return jax.lax.scan(step, (zeros, zeros), x @ wx + bias)[1]


def language(sizes):
    words, embed, hidden = sizes["vocabulary"], sizes["embed"], sizes["hidden"]
    values = {"embed": weights(words, embed), "scores": (weights(hidden, words), jnp.zeros(words)),
              "lstm": [(weights(hidden if i else embed, 4 * hidden), weights(hidden, 4 * hidden), jnp.zeros(4 * hidden))
                       for i in range(sizes["layers"])]}
    data, label = (jnp.asarray(np.random.randint(0, words, (sizes["steps"], sizes["batch"]))) for _ in range(2))

    def loss(parameters):
        x = parameters["embed"][data]
        for layer in parameters["lstm"]:
            x = lstm_layer(layer, x)
        return cross_entropy(x @ parameters["scores"][0] + parameters["scores"][1], label)
    return steps(values, loss, 0.1, 0.0)


work("lstm_train", "jit")(lambda: language(LSTM))
work("language_train", "jit")(lambda: language(LANGUAGE))


def normalised(x, gamma, beta):
    x = x - x.mean(-1, keepdims=True)
    return gamma * x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) + beta


def transformer_values():
    units, hidden = TRANSFORMER["units"], TRANSFORMER["hidden"]
    return [{"project": (weights(units, 3 * units), jnp.zeros(3 * units)), "out": (weights(units, units), jnp.zeros(units)),
             "wide": (weights(units, hidden), jnp.zeros(hidden)), "narrow": (weights(hidden, units), jnp.zeros(units)),
             "norms": [(jnp.ones(units), jnp.zeros(units)) for _ in range(2)]} for _ in range(TRANSFORMER["layers"])]


def transformer(values, x):  # (N, T, C)
    heads = TRANSFORMER["heads"]
    for layer in values:
        parts = (x @ layer["project"][0] + layer["project"][1]).reshape(x.shape[0], x.shape[1], 3, heads, -1)
        query, key, value = parts[:, :, 0], parts[:, :, 1], parts[:, :, 2]
        chances = jax.nn.softmax(jnp.einsum("nqhd,nkhd->nhqk", query, key) / query.shape[-1] ** 0.5)
        means = jnp.einsum("nhqk,nkhd->nqhd", chances, value).reshape(x.shape)
        x = normalised(x + means @ layer["out"][0] + layer["out"][1], *layer["norms"][0])
        inner = jax.nn.relu(x @ layer["wide"][0] + layer["wide"][1])
        x = normalised(x + inner @ layer["narrow"][0] + layer["narrow"][1], *layer["norms"][1])
    return x


@work("transformer_train", "jit")
def transformer_train():
    data, label = (jnp.asarray(np.random.normal(size=(8, 64, TRANSFORMER["units"])), "float32") for _ in range(2))
    return steps(transformer_values(), lambda values: ((transformer(values, data) - label) ** 2).mean() / 2, 0.001, 0.9)


work("transformer_infer1", "jit")(lambda: inference(lambda: (transformer_values(), transformer,
                                                             (128, TRANSFORMER["units"])), 1))

if __name__ == "__main__":
    work.serve()
