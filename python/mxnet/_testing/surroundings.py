"""Environment variables, data files and other things around tests."""
import contextlib
import os
import time

import numpy as np

from .. import _core, _download
from ..base import data_dir
from ..error import FileError


@contextlib.contextmanager
def environment(*args):
    """A `with` block with environment variables: (name, value) or a dict of them; None unsets."""
    if len(args) == 1 and isinstance(args[0], dict):
        wanted = args[0]
    elif len(args) == 2:
        wanted = {args[0]: args[1]}
    else:
        raise AssertionError("environment: expected a name and a value, or a dict of them")
    before = {name: os.environ.get(name) for name in wanted}
    try:
        _set(wanted)
        yield
    finally:
        _set(before)


def _set(values):
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = str(value)


def set_env_var(key, val, default_val=""):
    """Sets an environment variable, returns its previous value."""
    before = os.environ.get(key, default_val)
    os.environ[key] = val
    return before


@contextlib.contextmanager
def discard_stderr():
    """A `with` block whose standard error is discarded."""
    import sys
    sys.stderr.flush()
    keep, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(keep, 2)
        os.close(keep)
        os.close(nowhere)


def retry(n):
    """Decorator: a test may fail n - 1 times before it fails."""
    if n < 1:
        raise AssertionError("retry: expected at least one try")

    def decorate(test):
        import functools

        @functools.wraps(test)
        def run(*args, **kwargs):
            for left in range(n, 0, -1):
                try:
                    return test(*args, **kwargs)
                except AssertionError:
                    if left == 1:
                        raise
        return run
    return decorate


# ---- data ----------------------------------------------------------------------------------------------------------

def _mirror():
    return _download.repository() if os.environ.get("MXNET_GLUON_REPO") else "http://data.mxnet.io/"


def _find(folder_names, file, url=None):
    """A local file, packed or not; if it is nowhere, it is downloaded from the URL."""
    places = [os.path.join(data_dir(), "datasets", name) for name in folder_names] + ["data", "."]
    for place in places:
        for name in (file, file + ".gz"):
            path = os.path.join(place, name)
            if os.path.exists(path):
                return path
    if url is None:
        raise FileError(f"{file}: not found in {', '.join(places)}; put the file there")
    return download(url, dirname=places[0])


def _mnist(part, kind):
    file = f"{part}-{kind}"
    return np.asarray(_core.load_idx(_find(["mnist"], file, f"{_mirror()}data/mnist/{file}.gz")).asnumpy())


def get_mnist():
    """MNIST: a dict of train_data (N, 1, 28, 28) in [0, 1], train_label, test_data, test_label."""
    result = {}
    for part, prefix in (("train", "train"), ("test", "t10k")):
        images, labels = _mnist(prefix, "images-idx3-ubyte"), _mnist(prefix, "labels-idx1-ubyte")
        result[part + "_data"] = images.reshape(-1, 1, 28, 28).astype("float32") / 255
        result[part + "_label"] = labels.astype("int64")
    return result


def get_mnist_ubyte():
    """Gets MNIST's files, unless they exist."""
    try:
        for part in ("train", "t10k"):
            for kind in ("images-idx3-ubyte", "labels-idx1-ubyte"):
                _find(["mnist"], f"{part}-{kind}")
    except FileError:
        get_zip_data("data", _mirror() + "mxnet/data/mnist.zip", "mnist.zip")


def get_mnist_iterator(batch_size, input_shape, num_parts=1, part_index=0):
    """(training, validation) iterators over MNIST; input_shape (784,) or (1, 28, 28)."""
    from ..io import NDArrayIter
    data = get_mnist()
    iterators = []
    for part in ("train", "test"):
        images = data[part + "_data"][part_index::num_parts].reshape((-1,) + tuple(input_shape))
        labels = data[part + "_label"][part_index::num_parts].astype("float32")
        iterators.append(NDArrayIter(images, labels, batch_size, shuffle=part == "train"))
    return tuple(iterators)


def download(url, fname=None, dirname=None, overwrite=False, retries=5):
    """Downloads a file unless it exists; returns its path."""
    path = os.path.join(dirname or "", fname or url.split("/")[-1])
    if overwrite or not os.path.exists(path):
        _download.fetch(url, path, attempts=retries)
    return path


def get_cifar10():
    """Gets CIFAR-10's record files, unless they exist."""
    try:
        for part in ("train", "test"):
            if not os.path.exists(os.path.join("data", "cifar", part + ".rec")):
                _find(["cifar10", "cifar"], part + ".rec")
    except FileError:
        get_zip_data("data", _mirror() + "mxnet/data/cifar10.zip", "cifar10.zip")


def get_zip_data(data_dir, url, data_origin_name):
    """Downloads a .zip archive and unpacks it into the folder data_dir, unless it is there."""
    import zipfile
    archive = os.path.join(data_dir, data_origin_name)
    if not os.path.exists(archive):
        download(url, data_origin_name, data_dir)
        with zipfile.ZipFile(archive) as opened:
            opened.extractall(data_dir)


def get_bz2_data(data_dir, data_name, url, data_origin_name):
    """Downloads a .bz2 file and writes its contents to data_dir/data_name, unless it is there."""
    import bz2
    import shutil
    target, packed = os.path.join(data_dir, data_name), os.path.join(data_dir, data_origin_name)
    if os.path.exists(target):
        return
    download(url, data_origin_name, data_dir)
    part = f"{target}.{os.getpid()}.part"
    with bz2.open(packed) as source, open(part, "wb") as file:
        shutil.copyfileobj(source, file)
    os.replace(part, target)
    os.remove(packed)


def get_im2rec_path(home_env="MXNET_HOME"):
    """The path of the program im2rec.py: the one in the folder of that variable, if it has one, else the package's."""
    places = [os.path.join(os.environ[home_env], "tools", "im2rec.py")] if home_env in os.environ else []
    own = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tools", "im2rec.py")
    return next((path for path in places if os.path.isfile(path)), own)


class DummyIter:
    """An iterator that repeats the first batch of another one."""

    def __init__(self, real_iter):
        self.real_iter = real_iter
        self.provide_data = real_iter.provide_data
        self.provide_label = real_iter.provide_label
        self.batch_size = real_iter.batch_size
        self.the_batch = next(iter(real_iter))

    def __iter__(self):
        return self

    def next(self):
        """The batch."""
        return self.the_batch

    __next__ = next

    def reset(self):
        """Nothing to do."""


def check_speed(sym, location=None, ctx=None, N=20, grad_req=None, typ="whole", **kwargs):
    """Seconds of one run (of forward and backward if typ is 'whole'), averaged over N."""
    from .gradient import runner_of
    if typ not in ("whole", "forward"):
        raise ValueError(f"check_speed: typ must be 'whole' or 'forward', got {typ!r}")
    if location is None:
        location = {name: np.random.normal(size=shape) for name, shape in kwargs.items()}
    runner = runner_of(sym, location, ctx=ctx, dtype="float32")
    step = (lambda: runner.backward(None)) if typ == "whole" else (lambda: runner.forward(False))
    step()
    _core.wait_all()
    start = time.perf_counter()
    for _ in range(N):
        step()
    _core.wait_all()
    return (time.perf_counter() - start) / N


def is_cd_run():
    """Whether this is a run that publishes results."""
    return os.environ.get("CD_JOB", "0") == "1"


def is_aarch64_run():
    """Whether the machine has a 64-bit ARM processor."""
    import platform
    return platform.machine() == "aarch64"


def has_tvm_ops():
    """Whether operators generated by TVM exist: no."""
    return False


def is_op_runnable():
    """Whether operators generated by TVM would run here: nothing prevents it."""
    return True
