"""Downloads, from a server in this process that is slow, breaks off, redirects, refuses ..."""
import gzip
import hashlib
import http.server
import io
import multiprocessing
import os
import struct
import sys
import tarfile
import threading
import types
import warnings
import zipfile

import numpy as np
import pytest

import mxnet as mx
from mxnet import gluon
from mxnet.error import FileError
from mxnet.gluon import model_zoo
from mxnet.gluon.data import vision
from mxnet.gluon.utils import check_sha1, download

CONTENT = bytes(range(256)) * 1200  # larger than a block
SHA1 = hashlib.sha1(CONTENT).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    """/file is the contents; other paths misbehave.  The server counts requests and notes ranges."""

    def log_message(self, *args):
        pass

    def _send(self, body, status=200, length=None, etag='"1"'):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.send_header("ETag", etag)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        server = self.server
        with server.lock:
            server.count += 1
            server.ranges.append(self.headers.get("Range"))
            count = server.count
        name = self.path.split("/")[1].split("?")[0]
        start = self.headers.get("Range")
        start = int(start[len("bytes="):-1]) if start else 0
        if name == "redirect":
            self.send_response(302)
            self.send_header("Location", "/file")
            self.end_headers()
        elif name in ("missing", "busy") or (name == "flaky" and count < 3):
            self._send(b"no", 404 if name == "missing" else 503)
        elif name == "slow":
            self.send_response(200)
            self.send_header("Content-Length", str(len(CONTENT)))
            self.end_headers()
            for i in range(0, len(CONTENT), 1 << 15):
                self.wfile.write(CONTENT[i:i + (1 << 15)])
                self.wfile.flush()
                server.pause.wait(0.02)
        elif name == "breaks" and count < 3:  # half of what is left, then the connection ends
            rest = CONTENT[start:]
            self._send(rest[:len(rest) // 2], 206 if start else 200, len(rest))
            self.close_connection = True
        elif name == "always-breaks":
            self._send(CONTENT[:200000], 200, len(CONTENT))
            self.close_connection = True
        elif name in server.files:
            self._send(server.files[name])
        elif start:
            self._send(CONTENT[start:], 206)
        else:
            self._send(CONTENT)


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    made = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.lock, made.count, made.ranges, made.files, made.pause = threading.Lock(), 0, [], {}, threading.Event()
    made.url = f"http://127.0.0.1:{made.server_address[1]}/"
    thread = threading.Thread(target=made.serve_forever, daemon=True)
    thread.start()
    yield made
    made.pause.set()
    made.shutdown()
    thread.join()
    made.server_close()


# ---- download ------------------------------------------------------------------------------------------------------

def test_a_file(server, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert download(server.url + "file") == "file" and check_sha1("file", SHA1)
    assert download(server.url + "file", path="sub/dir/x") == "sub/dir/x", "folders are created"
    assert download(server.url + "file", path="sub") == os.path.join("sub", "file")
    count = server.count
    download(server.url + "file", path="sub", sha1_hash=SHA1)
    assert server.count == count, "a file that is there is not fetched again"
    (tmp_path / "file").write_bytes(b"old")
    download(server.url + "file")
    assert (tmp_path / "file").read_bytes() == b"old"
    download(server.url + "file", overwrite=True)
    assert (tmp_path / "file").read_bytes() == CONTENT
    (tmp_path / "file").write_bytes(b"old")
    download(server.url + "file", sha1_hash=SHA1)
    assert (tmp_path / "file").read_bytes() == CONTENT, "a file with another sum is replaced"
    assert sorted(os.listdir("sub")) == ["dir", "file"]


@pytest.mark.parametrize("name", ["redirect", "slow", "flaky"])
def test_patience(server, tmp_path, name):
    path = download(server.url + name, path=str(tmp_path / "x"), sha1_hash=SHA1)
    assert check_sha1(path, SHA1) and os.listdir(tmp_path) == ["x"]


def test_a_broken_connection_is_continued(server, tmp_path):
    path = download(server.url + "breaks", path=str(tmp_path / "x"))
    assert check_sha1(path, SHA1)
    starts = [int(text[len("bytes="):-1]) for text in server.ranges[1:]]
    assert server.ranges[0] is None and 100000 < starts[0] < starts[1] < len(CONTENT)


def test_an_interrupted_download_is_continued_later(server, tmp_path):
    with pytest.raises(FileError, match="200000 (of|bytes read)"):
        download(server.url + "always-breaks", path=str(tmp_path / "x"), sha1_hash=SHA1, retries=1)
    assert os.listdir(tmp_path) == ["x.part"]
    download(server.url + "file", path=str(tmp_path / "x"), sha1_hash=SHA1)
    assert server.ranges[-1] in ("bytes=200000-", "bytes=196608-") and os.listdir(tmp_path) == ["x"]
    (tmp_path / "y.part").write_bytes(b"of something else")
    download(server.url + "file", path=str(tmp_path / "y"), sha1_hash=SHA1)
    assert check_sha1(str(tmp_path / "y"), SHA1), "a wrong beginning is noticed"


def test_refusals(server, tmp_path):
    target = tmp_path / "x"
    target.write_bytes(b"old")
    with pytest.raises(RuntimeError, match=f"{server.url}missing to {target}.*404") as error:
        download(server.url + "missing", path=str(target), overwrite=True)
    assert isinstance(error.value, (mx.MXNetError, OSError)) and server.count == 1, "404 is final"
    with pytest.raises(RuntimeError, match="503"):
        download(server.url + "busy", path=str(target), overwrite=True, retries=2)
    assert server.count == 3
    with pytest.raises(UserWarning, match=f"file was downloaded.*{SHA1}.*{'0' * 40}"):
        download(server.url + "file", path=str(target), sha1_hash="0" * 40, retries=2)
    assert target.read_bytes() == b"old" and os.listdir(tmp_path) == ["x"], "nothing is lost, nothing is left"
    with pytest.raises(RuntimeError, match="by hand.*MXNET_GLUON_REPO"):
        download("http://127.0.0.1:1/x", path=str(tmp_path / "y"), retries=1)
    with pytest.raises(RuntimeError, match="cannot download"):
        download("other://host/x", path=str(tmp_path / "y"), retries=1)
    with pytest.raises(AssertionError):
        download(server.url)
    with pytest.raises(AssertionError):
        download(server.url + "file", retries=-1)
    assert os.listdir(tmp_path) == ["x"]


def test_local_files(tmp_path):
    (tmp_path / "source").write_bytes(CONTENT)
    for i, url in enumerate(((tmp_path / "source").as_uri(), str(tmp_path / "source"))):
        assert check_sha1(download(url, path=str(tmp_path / f"copy{i}")), SHA1)
    with pytest.raises(FileError, match="there is no file"):
        download("file:///no/such/file", path=str(tmp_path / "x"))


def test_proxies_are_used(server, tmp_path, monkeypatch):
    monkeypatch.setenv("http_proxy", server.url)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    server.files[""] = b"through the proxy"  # a proxy gets the complete URL as the path
    path = download("http://example.invalid/file", path=str(tmp_path / "x"), retries=1)
    assert open(path, "rb").read() == b"through the proxy"


def _child(url, path):
    download(url, path=path, sha1_hash=SHA1)


def test_several_processes_leave_one_file(server, tmp_path):
    context = multiprocessing.get_context("fork")
    children = [context.Process(target=_child, args=(server.url + "slow", str(tmp_path / "x"))) for _ in range(4)]
    for child in children:
        child.start()
    for child in children:
        child.join(60)
    assert [child.exitcode for child in children] == [0] * 4
    assert os.listdir(tmp_path) == ["x"] and check_sha1(str(tmp_path / "x"), SHA1)
    assert server.count == 1, "one downloads, the others wait for it"


def test_a_bar_on_a_terminal(server, tmp_path, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    for stream, drawn in ((Terminal(), True), (io.StringIO(), False)):
        monkeypatch.setattr(sys, "stderr", stream)
        download(server.url + "slow", path=str(tmp_path / "file.bin"), overwrite=True)
        assert ("file.bin" in stream.getvalue() and "of 0.3 MB" in stream.getvalue()) == drawn


def test_requests_is_used_and_may_be_replaced(tmp_path, monkeypatch):
    class Answer:
        status_code = 200

        def iter_content(self, chunk_size):
            yield b"replaced"

    calls = []
    fake = types.ModuleType("requests")
    fake.api = types.SimpleNamespace(get=None)
    fake.get = lambda url, stream, verify: calls.append((url, stream, verify)) or Answer()
    monkeypatch.setitem(sys.modules, "requests", fake)
    assert open(download("https://host/a", path=str(tmp_path / "a")), "rb").read() == b"replaced"
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        download("https://host/b", path=str(tmp_path / "b"), verify_ssl=False)
    assert [w.category for w in seen] == [UserWarning]
    mx.test_utils.download("https://host/c", dirname=str(tmp_path))
    assert calls == [("https://host/a", True, True), ("https://host/b", True, False), ("https://host/c", True, True)]


# ---- data sets and models ------------------------------------------------------------------------------------------

@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A folder that takes the place of the repository, and an empty home."""
    monkeypatch.setenv("MXNET_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("MXNET_GLUON_REPO", str(tmp_path / "repository"))
    (tmp_path / "repository" / "gluon").mkdir(parents=True)
    return tmp_path / "repository"


def put(repository, place, content):
    path = repository / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return hashlib.sha1(content).hexdigest()


def idx(array):
    head = struct.pack(">HBB", 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape)
    return gzip.compress(head + array.tobytes())


def zipped(**files):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, content in files.items():
            archive.writestr(name.replace("__", "."), content)
    return made.getvalue()


def test_mnist_is_downloaded(repository, monkeypatch):
    images = np.random.randint(0, 256, (5, 28, 28)).astype("uint8")
    folder = "gluon/dataset/mnist/"
    sums = [put(repository, folder + "t10k-images-idx3-ubyte.gz", idx(images)),
            put(repository, folder + "t10k-labels-idx1-ubyte.gz", idx(np.arange(5, dtype="uint8")))]
    with pytest.raises(UserWarning, match="SHA-1"):
        vision.MNIST(train=False)  # not the published files
    monkeypatch.setattr(vision.MNIST, "_test_data", ("t10k-images-idx3-ubyte.gz", sums[0]))
    monkeypatch.setattr(vision.MNIST, "_test_label", ("t10k-labels-idx1-ubyte.gz", sums[1]))
    data = vision.MNIST(train=False)
    assert np.array_equal(data._data.asnumpy()[..., 0], images) and data[3][1] == 3
    assert len(os.listdir(repository.parent / "home" / "datasets" / "mnist")) == 2
    with pytest.raises(FileError, match="train-images.*repository"):
        vision.MNIST(train=True)
    monkeypatch.setenv("MXNET_GLUON_REPO", "/nonexistent")
    assert len(vision.MNIST(train=False)) == 5, "the local folder comes first"


def test_cifar_is_downloaded(repository, monkeypatch, tmp_path):
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        for name in ["test_batch.bin"] + [f"data_batch_{i}.bin" for i in range(1, 6)]:
            info = tarfile.TarInfo("cifar-10-batches-bin/" + name)
            info.size = 2 * 3073
            archive.addfile(info, io.BytesIO(bytes([7]) + bytes(3072) + bytes([3]) + bytes(3072)))
    name = vision.CIFAR10._archive_file[0]
    sha1 = put(repository, "gluon/dataset/cifar10/" + name, made.getvalue())
    monkeypatch.setattr(vision.CIFAR10, "_archive_file", (name, sha1))
    assert vision.CIFAR10(root=str(tmp_path / "c"))._label.tolist() == [7, 3] * 5
    assert vision.CIFAR10(root=str(tmp_path / "c"), train=False)._label.tolist() == [7, 3]


def test_text_is_downloaded(repository, monkeypatch, tmp_path):
    text = gluon.contrib.data.text
    archive = zipped(**{f"wikitext-2/wiki.{part}.tokens": "a b c d e f\n" * 3 for part in ("train", "valid", "test")})
    sha1 = put(repository, "gluon/dataset/wikitext-2/wikitext-2-v1.zip", archive)
    with pytest.raises(FileError, match="WikiText2.*wiki.train.tokens"):
        text.WikiText2(root=str(tmp_path / "w"))
    monkeypatch.setattr(text.WikiText2, "_archive_file", ("wikitext-2-v1.zip", sha1))
    data = text.WikiText2(root=str(tmp_path / "w"), segment="validation", seq_len=5)
    assert data[0][0].shape == (5,) and len(data) == 4

    embedding = mx.contrib.text.embedding
    archive = zipped(**{"glove.6B.50d.txt": "hello 1 2 3\nworld 4 5 6\n"})
    sha1 = put(repository, "gluon/embeddings/glove/glove.6B.zip", archive)
    monkeypatch.setitem(embedding.GloVe.pretrained_archive_name_sha1, "glove.6B.zip", sha1)
    found = embedding.create("glove", pretrained_file_name="glove.6B.50d.txt", embedding_root=str(tmp_path / "e"))
    assert found.get_vecs_by_tokens("world").asnumpy().tolist() == [4, 5, 6]
    assert os.listdir(tmp_path / "e" / "glove") == ["glove.6B.50d.txt"]


def test_models_are_downloaded(repository, monkeypatch, tmp_path):
    store = model_zoo.model_store
    net = model_zoo.vision.squeezenet1_1(classes=3)
    net.initialize()
    net(mx.nd.zeros((1, 3, 224, 224)))
    net.save_parameters(str(tmp_path / "p"))
    content = (tmp_path / "p").read_bytes()
    sha1 = hashlib.sha1(content).hexdigest()
    monkeypatch.setitem(store._model_sha1, "squeezenet1.1", sha1)
    monkeypatch.setitem(store._model_sha1, "my_net", sha1)  # as libraries add theirs
    for name in ("squeezenet1.1", "my_net"):
        archive = io.BytesIO()
        with zipfile.ZipFile(archive, "w") as opened:
            opened.writestr(f"{name}-{sha1[:8]}.params", content)
        put(repository, f"gluon/models/{name}-{sha1[:8]}.zip", archive.getvalue())
        path = store.get_model_file(name, root=str(tmp_path / "models"))
        assert path.endswith(f"{name}-{sha1[:8]}.params") and check_sha1(path, sha1)
    loaded = model_zoo.vision.squeezenet1_1(classes=3, pretrained=True, root=str(tmp_path / "models"))
    np.testing.assert_array_equal(loaded.output[0].weight.data().asnumpy(), net.output[0].weight.data().asnumpy())
    assert len(os.listdir(tmp_path / "models")) == 2 and store.short_hash("my_net") == sha1[:8]
    with pytest.raises(FileError, match="resnet18_v1-a0666292.params.*resnet18_v1-a0666292.zip"):
        store.get_model_file("resnet18_v1", root=str(tmp_path / "models"))
    with pytest.raises(ValueError, match="unknown_net"):
        store.get_model_file("unknown_net", root=str(tmp_path / "models"))


def test_files_of_test_utils(repository, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    put(repository, "mxnet/data/cifar10.zip", zipped(**{"cifar/train.rec": "a", "cifar/test.rec": "b"}))
    mx.test_utils.get_cifar10()
    assert sorted(os.listdir("data/cifar")) == ["test.rec", "train.rec"]
    for part in ("train", "t10k"):
        put(repository, f"data/mnist/{part}-images-idx3-ubyte.gz", idx(np.zeros((4, 28, 28), "uint8")))
        put(repository, f"data/mnist/{part}-labels-idx1-ubyte.gz", idx(np.arange(4, dtype="uint8")))
    assert mx.test_utils.get_mnist()["test_label"].tolist() == [0, 1, 2, 3]
    import bz2
    put(repository, "x.bz2", bz2.compress(b"unpacked"))
    mx.test_utils.get_bz2_data("b", "name", str(repository / "x.bz2"), "x.bz2")
    assert open("b/name", "rb").read() == b"unpacked" and os.listdir("b") == ["name"]
