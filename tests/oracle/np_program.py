"""Runs on both packages: what mx.np has, what its expressions give, networks written and read.

    python np_program.py names OUT              names and argument names of all functions
    python np_program.py fallback OUT           functions that run in NumPy
    python np_program.py values OUT             expressions of EXPRESSIONS: class, type, shape, elements
    python np_program.py write FOLDER           exports a network with F.np and F.npx, with its input and output
    python np_program.py read FOLDER OUT        the output of such a network
"""
import inspect
import json
import sys
import warnings

warnings.filterwarnings("ignore")
import mxnet as mx  # noqa: E402
import numpy as onp  # noqa: E402
from mxnet import autograd, gluon, np, npx  # noqa: E402
from mxnet.gluon import nn  # noqa: E402

# f, g: float32 (2, 3) and (3,); d: float64; h: float16; i, l: int32, int64 (3,); m: bool (3,)
EXPRESSIONS = """f + g; f * 2; 1 - f; f / g; f ** 2; 2 ** f; f > g; f == f; -f; abs(f); i + 1; i + i; i + l; i / 2; i / i; i * f; h + f; h * 1.5; d + f
    f.sum(); f.sum(axis=0); f.mean(axis=1, keepdims=True); f.max(); f.argmax(); f.argmax(axis=1); f.min(axis=0); np.std(f); np.var(f, axis=0)
    np.prod(f, axis=1); np.cumsum(f, axis=1); np.exp(f); np.log(abs(f) + 1); np.tanh(f); np.sqrt(abs(f)); np.floor(f); np.sign(f); np.square(f)
    f[0]; f[:, 1]; f[0, 1]; f[..., None]; f[1, ::-1]; f[[0, 1, 0]]; f[f > 0]; f[m[:2]]; f[:, m]; f.T; f.reshape(3, 2); f.reshape(-1); f.flatten()
    np.dot(f, f.T); np.matmul(f, g); np.tensordot(f, f, 2); np.einsum("ij,j->i", f, g); np.outer(g, g); np.inner(g, g); np.vdot(g, g)
    np.concatenate([f, f], axis=1); np.stack([g, g]); np.vstack([g, g]); np.hstack([f, f]); np.dstack([g, g]); np.split(f, 3, axis=1)[1]
    np.where(f > 0, f, g); np.maximum(f, 0.5); np.minimum(f, g); np.clip(f, -0.5, 0.5); np.take(f, i - 1, axis=1); np.sort(f); np.argsort(g)
    np.expand_dims(f, 1); np.squeeze(f[None]); np.swapaxes(f, 0, 1); np.moveaxis(f, 0, 1); np.flip(f, 1); np.roll(f, 1, axis=1); np.tile(g, 2)
    np.repeat(g, 2); np.rot90(f); np.tril(f); np.diag(g); np.trace(np.dot(f, f.T)); np.pad(f, ((1, 1), (0, 2))); np.broadcast_to(g, (2, 3))
    np.zeros((2, 3)); np.ones(2); np.full((2,), 1.5); np.arange(3); np.arange(1, 7, 2); np.linspace(0, 1, 5); np.eye(3); np.identity(2)
    np.zeros_like(i); np.ones_like(f); np.array([1, 2]); np.array(3); np.array([[1.5]]); np.meshgrid(g, g)[0]; np.unique(i); np.nonzero(m)[0]
    np.isnan(f); np.isinf(f); np.isfinite(f); np.logical_not(m); np.hypot(f, g); np.arctan2(f, g); np.mod(f, 0.3); np.around(f); np.rint(f)
    np.linalg.norm(f); np.linalg.norm(g, ord=2); np.linalg.inv(np.dot(f, f.T)); np.linalg.det(np.dot(f, f.T)); np.linalg.cholesky(np.eye(2))
    npx.relu(f); npx.sigmoid(f); npx.softmax(f); npx.log_softmax(f, axis=0); npx.one_hot(i, 4); npx.pick(f, np.array([0, 2])); npx.topk(f, k=2)
    npx.batch_flatten(f[None]); npx.gamma(abs(f) + 1); npx.erf(f); npx.leaky_relu(f, act_type="gelu"); npx.reshape(f, (-5,)); npx.smooth_l1(f)
    npx.batch_dot(f[None], f.T[None]); npx.embedding(i - 1, f.T, input_dim=3, output_dim=2); npx.arange_like(f, axis=1); np.average(f, axis=0)
    np.diff(f); np.histogram(g, bins=3, range=(-1, 1))[0]; np.bincount(i); np.percentile(f, 50); np.ravel(f); np.atleast_2d(g); np.copysign(f, g)
    np.cbrt(f); np.degrees(f); np.expm1(f); np.log1p(abs(f)); np.nan_to_num(f); np.insert(g, 1, 5); np.delete(g, 1); np.bitwise_xor(i, 3)"""


def arrays():
    random = onp.random.RandomState(3)
    f = random.uniform(-1, 1, (2, 3)).astype("float32")
    return dict(np=np, npx=npx, f=np.array(f), g=np.array(f[0] + 0.25), d=np.array(f.astype("float64"), dtype="float64"),
                h=np.array(f.astype("float16"), dtype="float16"), i=np.array([1, 2, 3], dtype="int32"),
                l=np.array([1, 2, 3], dtype="int64"), m=np.array([True, False, True], dtype="bool"))


def names():
    found = {}
    for place, module in (("np", np), ("np.linalg", np.linalg), ("np.random", np.random), ("npx", npx), ("npx.random", npx.random)):
        for name in dir(module):
            value = getattr(module, name)
            if name.startswith("_") or inspect.ismodule(value) or not callable(value) or isinstance(value, type):
                continue
            try:
                arguments = [p.name for p in inspect.signature(value).parameters.values() if p.kind != p.VAR_KEYWORD]
            except (TypeError, ValueError):
                arguments = None
            found[f"{place}.{name}"] = arguments
    return found


def fallback():
    from mxnet.numpy import fallback as ours
    if hasattr(ours, "FUNCTIONS"):
        return [*ours.FUNCTIONS, *("linalg." + name for name in ours.LINALG)]
    from mxnet.numpy import fallback_linalg
    return [*ours.__all__, *("linalg." + name for name in fallback_linalg.__all__)]


def values():
    found = {}
    for expression in EXPRESSIONS.replace("\n", ";").split(";"):
        expression = expression.strip()
        try:
            x = eval(expression, arrays())  # noqa: S307
            found[expression] = [type(x).__name__, str(x.dtype), list(x.shape), x.asnumpy().astype("float64").reshape(-1).tolist()]
        except Exception as error:  # noqa: BLE001
            found[expression] = ["raises", type(error).__name__, str(error)[:200]]
    return found


class Net(nn.HybridBlock):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.conv, self.dense = nn.Conv2D(2, 3), nn.Dense(3)

    def hybrid_forward(self, F, x):
        h = self.dense(F.npx.batch_flatten(F.npx.relu(self.conv(x))))
        z = F.np.sum(F.np.exp(h) * 2 + 1 - h / 3, axis=1, keepdims=True) + F.np.mean(h) + F.np.dot(h, h.T)
        square = F.np.dot(h, h.T) + 2
        z = z + F.np.linalg.solve(square, F.np.tanh(h)).sum() + F.np.linalg.svd(h)[1].sum() * 0.1
        z = F.np.concatenate([z, z], axis=1)
        return (F.np.tanh(z) + F.np.maximum(z, 0) + F.np.expand_dims(F.np.max(z, axis=0), 0) + (z > 0).astype("float32")
                + F.np.where(z > 0, z, F.np.zeros_like(z)) + F.np.stack([z, z]).sum(axis=0) + F.np.power(F.np.abs(z), 0.5))


def write(folder):
    net, x = Net(prefix="net_"), np.array(onp.random.RandomState(1).uniform(size=(2, 3, 5, 5)).astype("float32"))
    net.initialize(mx.init.Xavier())
    net.hybridize()
    y = net(x)
    net.export(folder + "/net")
    onp.savez(folder + "/net.npz", x=x.asnumpy(), y=y.asnumpy())


def read(folder):
    net = gluon.SymbolBlock.imports(folder + "/net-symbol.json", ["data"], folder + "/net-0000.params")
    return net(np.array(onp.load(folder + "/net.npz")["x"])).asnumpy().tolist()


if __name__ == "__main__":
    npx.set_np()
    assert not autograd.is_recording()
    if sys.argv[1] == "write":
        write(sys.argv[2])
    else:
        result = read(sys.argv[2]) if sys.argv[1] == "read" else {"names": names, "values": values, "fallback": fallback}[sys.argv[1]]()
        with open(sys.argv[-1], "w") as file:
            json.dump(result, file)
