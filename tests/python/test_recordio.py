"""Record files: written, read, indexed, pickled, inherited by forked processes; image records."""
import os
import pickle
import struct

import numpy as np
import pytest

import mxnet as mx
from mxnet import recordio

MAGIC = struct.pack("<I", 0xCED7230A)
RECORDS = [b"", b"a", b"abcd", b"abcde" * 1000, MAGIC, b"1234" + MAGIC + b"56" + MAGIC, bytes(range(256)) * 300]


def write(path, records=RECORDS):
    record = recordio.MXRecordIO(str(path), "w")
    for item in records:
        record.write(item)
    record.close()


def test_write_and_read(tmp_path):
    path = tmp_path / "a.rec"
    write(path)
    record = recordio.MXRecordIO(str(path), "r")
    assert [record.read() for _ in RECORDS] == RECORDS
    assert record.read() is None and record.read() is None
    record.reset()
    assert record.read() == RECORDS[0]
    record.close()
    with recordio.MXRecordIO(path, "r") as again:  # paths need not be text
        assert again.read() == b""


def test_bytes_of_the_file(tmp_path):
    path = tmp_path / "a.rec"
    write(path, [b"abcde", b""])
    assert path.read_bytes() == MAGIC + struct.pack("<I", 5) + b"abcde\0\0\0" + MAGIC + struct.pack("<I", 0)


def test_index(tmp_path):
    idx, rec = str(tmp_path / "a.idx"), str(tmp_path / "a.rec")
    record = recordio.MXIndexedRecordIO(idx, rec, "w")
    for i, item in enumerate(RECORDS):
        record.write_idx(10 * i, item)
    assert record.keys == [10 * i for i in range(len(RECORDS))]
    record.close()
    lines = open(idx).read().splitlines()
    assert lines[0] == "0\t0" and lines[1] == "10\t8"
    record = recordio.MXIndexedRecordIO(idx, rec, "r")
    for i in (5, 0, 3, 6):
        assert record.read_idx(10 * i) == RECORDS[i]
    record.seek(30)
    assert record.tell() == record.idx[30] and record.read() == RECORDS[3] and record.read() == RECORDS[4]
    assert recordio.MXIndexedRecordIO(idx, rec, "r", key_type=str).keys[1] == "10"
    with pytest.raises(KeyError):
        record.read_idx(7)


def test_plain_writes_are_not_indexed(tmp_path):
    idx, rec = str(tmp_path / "a.idx"), str(tmp_path / "a.rec")
    record = recordio.MXIndexedRecordIO(idx, rec, "w")
    record.write(b"first")
    record.write_idx(4, b"second")
    record.close()
    record = recordio.MXIndexedRecordIO(idx, rec, "r")
    assert record.keys == [4] and record.read_idx(4) == b"second" and record.read() is None


def test_wrong_use(tmp_path):
    path = str(tmp_path / "a.rec")
    write(path)
    reader, writer = recordio.MXRecordIO(path, "r"), recordio.MXRecordIO(str(tmp_path / "b.rec"), "w")
    with pytest.raises(AssertionError):
        reader.write(b"x")
    with pytest.raises(AssertionError):
        writer.read()
    with pytest.raises(TypeError):
        writer.write("text")
    with pytest.raises(ValueError, match="flag is 'a'"):
        recordio.MXRecordIO(path, "a")
    reader.close()
    reader.close()
    with pytest.raises(RuntimeError, match="closed"):
        reader.read()
    with pytest.raises(mx.MXNetError, match="none.rec"):
        recordio.MXRecordIO(str(tmp_path / "none.rec"), "r")
    with pytest.raises(FileNotFoundError, match="none.idx"):
        recordio.MXIndexedRecordIO(str(tmp_path / "none.idx"), path, "r")


def test_damaged_files(tmp_path):
    path = tmp_path / "a.rec"
    write(path, [b"0123456789" * 50, b"tail"])
    whole = path.read_bytes()
    for damaged in (whole[:100], b"XXXX" + whole[4:], whole[:4] + struct.pack("<I", 1 << 28) + whole[8:]):
        path.write_bytes(damaged)
        with pytest.raises(mx.MXNetError):
            recordio.MXRecordIO(str(path), "r").read()
    (tmp_path / "a.idx").write_text("0\tx\n")
    with pytest.raises(mx.MXNetError):
        recordio.MXIndexedRecordIO(str(tmp_path / "a.idx"), str(path), "r")


def test_a_file_is_there_when_it_is_whole(tmp_path):
    path = tmp_path / "a.rec"
    record = recordio.MXRecordIO(str(path), "w")
    record.write(b"abc")
    assert not path.exists()
    del record  # closes it
    assert recordio.MXRecordIO(str(path), "r").read() == b"abc"


def test_pickle(tmp_path):
    idx, rec = str(tmp_path / "a.idx"), str(tmp_path / "a.rec")
    writer = recordio.MXIndexedRecordIO(idx, rec, "w")
    for i in range(4):
        writer.write_idx(i, b"r%d" % i)
    with pytest.raises(TypeError, match="being written"):
        pickle.dumps(writer)
    writer.close()
    reader = recordio.MXIndexedRecordIO(idx, rec, "r")
    assert reader.read_idx(2) == b"r2"
    copy = pickle.loads(pickle.dumps(reader))
    assert copy.read_idx(3) == b"r3" and copy.keys == [0, 1, 2, 3]
    assert reader.read() == b"r3", "the original reads on"
    reader.close()
    closed = pickle.loads(pickle.dumps(reader))
    with pytest.raises(RuntimeError):
        closed.read()


def in_child(action):
    """What action() gives in a forked process, as text."""
    source, target = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            text = repr(action())
        except BaseException as error:
            text = type(error).__name__
        os.write(target, text.encode())
        os._exit(0)
    os.waitpid(pid, 0)
    os.close(target)
    with os.fdopen(source) as file:
        return file.read()


def test_forked_processes(tmp_path):
    idx, rec = str(tmp_path / "a.idx"), str(tmp_path / "a.rec")
    writer = recordio.MXIndexedRecordIO(idx, rec, "w")
    for i in range(4):
        writer.write_idx(i, b"r%d" % i)
    assert in_child(lambda: writer.write_idx(9, b"x")) == "RuntimeError"
    assert in_child(lambda: writer.close()) == "None"
    assert not os.path.exists(rec), "the child must not finish the parent's file"
    writer.close()
    reader = recordio.MXIndexedRecordIO(idx, rec, "r")
    reader.seek(2)
    assert in_child(lambda: reader.read_idx(1)) == "b'r1'"
    assert reader.read() == b"r2", "the child does not move the parent's reader"


# ---- image records -------------------------------------------------------------------------------------------------

def test_pack():
    header = recordio.IRHeader(7, 4.0, 2, 3)
    packed = recordio.pack(header, b"data")
    assert packed == struct.pack("<IfQQ", 0, 4.0, 2, 3) + b"data"
    back, payload = recordio.unpack(packed)
    assert back == recordio.IRHeader(0, 4.0, 2, 3) and payload == b"data" and isinstance(back.label, float)
    packed = recordio.pack((0, [1, 2, 3], 2, 3), b"data")
    assert packed == struct.pack("<IfQQ3f", 3, 0, 2, 3, 1, 2, 3) + b"data"
    back, payload = recordio.unpack(packed)
    assert back.flag == 3 and payload == b"data"
    assert back.label.dtype == np.float32 and back.label.tolist() == [1, 2, 3]
    assert recordio.unpack(recordio.pack((0, np.float64(0.5), 2 ** 40, 0), b""))[0] == (0, 0.5, 2 ** 40, 0)
    assert recordio.pack((0, mx.nd.array([1, 2]), 0, 0), b"") == recordio.pack((0, (1.0, 2.0), 0, 0), b"")
    with pytest.raises(ValueError):
        recordio.pack((0, 1.0, -1, 0), b"")
    for short in (b"", b"123", struct.pack("<IfQQ", 9, 0, 0, 0)):
        with pytest.raises(mx.MXNetError):
            recordio.unpack(short)


def test_pack_img():
    image = np.random.randint(0, 255, (8, 9, 3)).astype("uint8")
    header, back = recordio.unpack_img(recordio.pack_img((0, 5.0, 1, 0), image, quality=3, img_fmt=".png"))
    assert header.label == 5 and back.dtype == np.uint8 and np.array_equal(back, image)
    gray = image[:, :, 0]
    record = recordio.pack_img((0, 5.0, 1, 0), gray, quality=3, img_fmt=".png")
    assert np.array_equal(recordio.unpack_img(record)[1], gray)
    assert recordio.unpack_img(record, iscolor=1)[1].shape == (8, 9, 3)
    smooth = np.add.outer(np.arange(32), np.arange(48))[:, :, None] * np.array([1, 2, 3])
    smooth = smooth.astype("uint8") // 2 + 20
    back = recordio.unpack_img(recordio.pack_img((0, 0.0, 0, 0), smooth, quality=95))[1]
    assert np.abs(back.astype(int) - smooth).mean() < 3
    small, large = [len(recordio.pack_img((0, 0.0, 0, 0), image, quality=q)) for q in (10, 95)]
    assert small < large
    # channels are in the order blue, green, red; mx.image returns red first
    decoded = mx.image.imdecode(recordio.unpack(recordio.pack_img((0, 0.0, 0, 0), image, 3, ".png"))[1])
    assert np.array_equal(decoded.asnumpy(), image[:, :, ::-1])
    with pytest.raises(mx.MXNetError):
        recordio.pack_img((0, 0.0, 0, 0), image, img_fmt=".xyz")


# ---- im2rec --------------------------------------------------------------------------------------------------------

def run_im2rec(*args, by_path=False):
    import subprocess
    import sys
    program = [mx.test_utils.get_im2rec_path()] if by_path else ["-m", "mxnet.tools.im2rec"]
    return subprocess.run([sys.executable] + program + [str(a) for a in args], capture_output=True, text=True)


@pytest.fixture
def photos(tmp_path):
    for i, name in enumerate(("cat/1.png", "cat/2.png", "dog/3.png", "dog/4.png")):
        (tmp_path / "photos" / name).parent.mkdir(parents=True, exist_ok=True)
        image = np.full((8, 12, 3), 40 * i + 10, "uint8")
        (tmp_path / "photos" / name).write_bytes(
            recordio.unpack(recordio.pack_img((0, 0, 0, 0), image, quality=3, img_fmt=".png"))[1])
    return tmp_path / "photos"


@pytest.mark.parametrize("by_path", [False, True])
def test_im2rec(photos, tmp_path, by_path):
    made = run_im2rec("--list", "--recursive", "--no-shuffle", tmp_path / "pets", photos, by_path=by_path)
    assert made.returncode == 0 and "cat 0" in made.stdout and "dog 1" in made.stdout, made.stderr
    assert (tmp_path / "pets.lst").read_text().splitlines()[2] == "2\t1.000000\tdog/3.png"
    made = run_im2rec("--resize", 4, "--encoding", ".png", "--quality", 3, "--num-thread", 2, tmp_path / "pets", photos,
                      by_path=by_path)
    assert made.returncode == 0 and "pets.rec: 4 images" in made.stdout, made.stderr
    data = mx.gluon.data.vision.ImageRecordDataset(str(tmp_path / "pets.rec"))
    image, label = data[3]
    assert len(data) == 4 and image.shape == (4, 6, 3) and label == 1 and (image.asnumpy() == 130).all()
    batch = mx.io.ImageRecordIter(path_imgrec=str(tmp_path / "pets.rec"), data_shape=(3, 4, 4), batch_size=4).next()
    assert batch.label[0].asnumpy().tolist() == [0, 0, 1, 1]


def test_im2rec_options(photos, tmp_path):
    assert run_im2rec("--list", "--recursive", "--train-ratio", 0.5, "--test-ratio", 0.25, "--exts", ".png", ".jpg", "--",
                      tmp_path / "s", photos).returncode == 0
    counts = {part: len((tmp_path / f"s_{part}.lst").read_text().splitlines()) for part in ("train", "test", "val")}
    assert counts == {"train": 2, "test": 1, "val": 1}
    (tmp_path / "many.lst").write_text("5\t1\t2\t3\tcat/1.png\n")
    assert run_im2rec("--pack-label", "--pass-through", tmp_path / "many", photos).returncode == 0
    reader = recordio.MXIndexedRecordIO(str(tmp_path / "many.idx"), str(tmp_path / "many.rec"), "r")
    header, payload = recordio.unpack(reader.read_idx(5))
    assert header.label.tolist() == [1, 2, 3] and payload == (photos / "cat" / "1.png").read_bytes()
    for args, said in ((("--list", tmp_path / "x", tmp_path / "nowhere"), "nowhere"),
                       ((tmp_path / "x", photos), "there is no list"), (("--list", tmp_path / "x", photos), "recursive")):
        failed = run_im2rec(*args)
        assert failed.returncode == 1 and said in failed.stderr and "Traceback" not in failed.stderr


def test_the_path_of_im2rec(tmp_path, monkeypatch):
    assert os.path.isfile(mx.test_utils.get_im2rec_path())
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "im2rec.py").write_text("")
    monkeypatch.setenv("MXNET_HOME", str(tmp_path))
    assert mx.test_utils.get_im2rec_path() == str(tmp_path / "tools" / "im2rec.py")
