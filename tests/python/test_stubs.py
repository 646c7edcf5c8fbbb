"""Type stubs: mypy and basedpyright accept the examples and find a misspelt keyword; no keyword list is open by accident.

The checkers are in build/types (make test installs them) or beside the Python that runs the tests.
"""
import ast
import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

import mxnet as mx

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = pathlib.Path(mx.__file__).resolve().parent
EXAMPLES = sorted(map(str, (ROOT / "examples" / "python").glob("*.py")))

# One mistake per line; the word is what a checker must name.
MISTAKES = [
    ("nd.Convolution(x, x, kernel=(3, 3), num_filter=4, strid=1)", "strid"),
    ("x.softmax(axs=1)", "axs"),
    ("nd.random.uniform(shap=(2, 3))", "shap"),
    ("nd.zerosx((2, 3))", "zerosx"),
    ("nn.Dense(3, in_unit=4)", "in_unit"),
    ("nn.Conv2D(3, 3, padding=1, dilatation=2)", "dilatation"),
    ("nn.BatchNorm(momentun=0.9)", "momentun"),
    ("gluon.loss.SoftmaxCELoss(axes=1)", "axes"),
    ("gluon.rnn.LSTM(10, layuot='NTC')", "layuot"),
    ("gluon.rnn.LSTMCell(10, activaton='tanh')", "activaton"),
    ("gluon.Trainer({}, 'sgd', kvstor=None)", "kvstor"),
    ("gluon.Parameter('w', shapes=(2, 3))", "shapes"),
    ("gluon.data.DataLoader([1], batchsize=1)", "batchsize"),
    ("gluon.data.vision.transforms.Resize(3, interpol=1)", "interpol"),
    ("gluon.model_zoo.vision.resnet18_v1(pretraned=True)", "pretraned"),
    ("mx.optimizer.Adam(learning_rate=0.1, beta3=1)", "beta3"),
    ("mx.optimizer.SGD(momentum=0.1, weight_decay=1)", "weight_decay"),
    ("mx.init.Xavier(magnitud=3)", "magnitud"),
    ("mx.metric.Accuracy(axes=1)", "axes"),
    ("mx.lr_scheduler.FactorScheduler(1, facter=2)", "facter"),
    ("mx.io.NDArrayIter(x, batchsize=2)", "batchsize"),
    ("mx.sym.FullyConnected(mx.sym.var('a'), num_hiden=2)", "num_hiden"),
    ("autograd.record(train=True)", "train"),
    ("mx.image.ImageIter(2, (3, 4, 5), rand_mirrow=True)", "rand_mirrow"),
]
RIGHT = """
y = nd.Convolution(x, x, kernel=(3, 3), num_filter=4, stride=(1, 1), name="c")
nd.Activation(x, act_type="relu").asnumpy().mean()
net = nn.HybridSequential(prefix="net_")
net.add(nn.Dense(3, activation="relu", in_units=4, prefix="d_"), nn.Dropout(0.5))
net.initialize(mx.init.Xavier(magnitude=2.24), ctx=[mx.cpu(0)])
net.hybridize(static_alloc=True, static_shape=True)
weight: nd.NDArray = net[0].weight.data()
trainer = gluon.Trainer(net.collect_params(), mx.optimizer.Adam(learning_rate=0.1, wd=1e-4, clip_gradient=1.0))
with autograd.record():
    loss = gluon.loss.L2Loss()(net(x), x).mean()
loss.backward()
trainer.step(2)
print(f"{loss.asscalar():.3f}", x.shape[0] + 1, (x + 1).sum(axis=1).T.ctx)
mx.sym.Convolution(mx.sym.var("a"), kernel=3, num_filter=2, lr_mult=2.0).list_arguments()[0].upper()
gluon.model_zoo.vision.resnet18_v1(classes=10, pretrained=False).summary(x)
it = mx.image.ImageIter(2, (3, 4, 5), path_imgrec="a.rec", rand_mirror=True)


class Net(gluon.HybridBlock):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.scale = self.params.get("scale", shape=(1,), init="ones")

    def hybrid_forward(self, F, data, scale=None):
        return F.broadcast_mul(data, scale)
"""
HEAD = "import mxnet as mx\nfrom mxnet import autograd, gluon, nd\nfrom mxnet.gluon import nn\nx = nd.zeros((2, 3))\n"


def tool(name):
    """Path of a checker; the test is skipped if there is none."""
    for place in (ROOT / "build" / "types" / "bin", pathlib.Path(sys.executable).parent):
        if (place / name).exists():
            return str(place / name)
    found = shutil.which(name)
    if not found:
        pytest.skip(f"{name} is not installed (make test installs it into build/types)")
    return found


def mypy(files, folder):
    """(exit status, output) of mypy."""
    environment = dict(os.environ, MYPYPATH=str(PACKAGE.parent))
    command = [tool("mypy"), "--follow-imports=silent", "--check-untyped-defs", "--cache-dir", str(folder / "cache"),
               "--python-executable", sys.executable, "--no-error-summary", *files]
    ran = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder)
    return ran.returncode, ran.stdout + ran.stderr


def pyright(files, folder):
    """(exit status, output) of basedpyright; what a program does with its own Nones is not our stubs' matter."""
    config = {"include": files, "extraPaths": [str(PACKAGE.parent)], "typeCheckingMode": "standard",
              "reportPossiblyUnboundVariable": False, "reportOptionalMemberAccess": False, "reportOptionalOperand": False}
    (folder / "pyrightconfig.json").write_text(json.dumps(config))
    command = [tool("basedpyright"), "--project", str(folder), "--pythonpath", sys.executable]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    return ran.returncode, ran.stdout + ran.stderr


CHECKERS = pytest.mark.parametrize("check", [mypy, pyright])


@CHECKERS
def test_examples_are_accepted(check, tmp_path):
    program = tmp_path / "right.py"
    program.write_text(HEAD + RIGHT)
    status, output = check(EXAMPLES + [str(program)], tmp_path)
    assert status == 0, output


@CHECKERS
def test_mistakes_are_found(check, tmp_path):
    program = tmp_path / "wrong.py"
    program.write_text(HEAD + "".join(line + "\n" for line, _ in MISTAKES))
    status, output = check([str(program)], tmp_path)
    assert status != 0
    first = HEAD.count("\n") + 1
    for number, (line, word) in enumerate(MISTAKES, first):
        reports = [text for text in output.splitlines() if f"wrong.py:{number}:" in text and f'"{word}"' in text]
        assert reports, f"{line}: the checker does not name '{word}'\n{output}"


def stubs():
    return sorted(PACKAGE.rglob("*.pyi"))


def test_every_module_has_a_stub():
    if not stubs():
        pytest.skip("the package was installed without stubs")
    missing = [str(path) for path in PACKAGE.rglob("*.py") if not path.with_suffix(".pyi").exists()]
    assert not missing


# Methods that stay open in subclasses.
INHERITED = {"forward", "hybrid_forward", "__call__", "optimize_for"}


def test_open_keywords_are_listed():
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        import pystubs_facts
    finally:
        sys.path.pop(0)
    unlisted = []
    for path in stubs():
        tree = ast.parse(path.read_text())
        for owner in [tree] + [node for node in tree.body if isinstance(node, ast.ClassDef)]:
            for function in owner.body:
                if isinstance(function, ast.FunctionDef) and function.args.kwarg and \
                        f"{getattr(owner, 'name', '')}.{function.name}" not in pystubs_facts.OPEN and \
                        function.name not in pystubs_facts.OPEN | INHERITED:
                    unlisted.append(f"{path.name}: {getattr(owner, 'name', '')}.{function.name}")
    assert not unlisted
