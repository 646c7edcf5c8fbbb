"""mx.io: batches, iterators over arrays, over other iterators and over files."""
import gzip
import struct
import threading

import numpy as np
import pytest

import mxnet as mx
from mxnet import io, nd, recordio

X, Y = np.arange(20.0).reshape(10, 2), np.arange(10)


def epoch(iterator):
    """(labels, pad) of every batch."""
    return [(b.label[0].asnumpy().tolist(), b.pad) for b in iterator]


# ---- arrays --------------------------------------------------------------------------------------------------------

def test_pad():
    it = io.NDArrayIter(X, Y, 4)
    for _ in range(2):
        assert epoch(it) == [([0, 1, 2, 3], 0), ([4, 5, 6, 7], 0), ([8, 9, 0, 1], 2)]
        it.reset()
    batch = it.next()
    assert batch.data[0].asnumpy().tolist() == X[:4].tolist() and batch.index is None
    assert batch.data[0].dtype == np.float32 and str(batch) == "DataBatch: data shapes: [(4, 2)] label shapes: [(4,)]"
    assert epoch(io.NDArrayIter(X[:2], Y[:2], 5)) == [([0, 1, 0, 1, 0], 3)]


def test_discard():
    it = io.NDArrayIter(X, Y, 4, last_batch_handle="discard")
    for _ in range(2):
        assert epoch(it) == [([0, 1, 2, 3], 0), ([4, 5, 6, 7], 0)]
        it.reset()


def test_roll_over():
    it = io.NDArrayIter(X, Y, 3, last_batch_handle="roll_over")
    assert epoch(it) == [([0, 1, 2], 0), ([3, 4, 5], 0), ([6, 7, 8], 0)]
    it.reset()
    assert epoch(it) == [([9, 0, 1], 1), ([2, 3, 4], 0), ([5, 6, 7], 0)]
    it.reset()
    assert epoch(it) == [([8, 9, 0], 2), ([1, 2, 3], 0), ([4, 5, 6], 0), ([7, 8, 9], 0)]
    it.reset()
    assert epoch(it)[0] == ([0, 1, 2], 0)
    it.reset()
    it.hard_reset()
    assert epoch(it)[0] == ([0, 1, 2], 0)


def test_shuffle():
    def order():
        np.random.seed(2)
        it = io.NDArrayIter(X, Y, 10, shuffle=True)
        first = it.next()
        assert np.array_equal(first.data[0].asnumpy()[:, 0] / 2, first.label[0].asnumpy())
        it.reset()
        return first.label[0].asnumpy().tolist(), it.next().label[0].asnumpy().tolist()

    first, second = order()
    assert sorted(first) == sorted(second) == list(range(10)) and first != second
    assert order() == (first, second)


def test_sources():
    it = io.NDArrayIter({"b": X, "a": nd.array(X)}, {"l": Y}, 2)
    assert [d.name for d in it.provide_data] == ["a", "b"] and it.provide_label == [("l", (2,))]
    it = io.NDArrayIter([X, X + 1], [Y, Y], 2)
    assert [d.name for d in it.provide_data] == ["_0_data", "_1_data"]
    assert [d.name for d in it.provide_label] == ["_0_softmax_label", "_1_softmax_label"]
    assert it.next().data[1].asnumpy()[0].tolist() == [1, 2]
    many = io.NDArrayIter([X + i for i in range(12)], None, 2).next()
    assert [int(x.asnumpy()[0, 0]) for x in many.data] == list(range(12)) and many.label == []
    assert io.NDArrayIter(nd.array(X, dtype="int32"), None, 2).next().data[0].dtype == np.int32
    for error, wrong in ((AssertionError, []), (AssertionError, None), (TypeError, "abc"), (TypeError, 5)):
        with pytest.raises(error):
            io.NDArrayIter(wrong, None, 2)
    with pytest.raises(ValueError, match="3 examples"):
        io.NDArrayIter(X, Y[:3], 2)
    with pytest.raises(ValueError, match="last_batch_handle"):
        io.NDArrayIter(X, Y, 2, last_batch_handle="drop")


def test_stepwise():
    it = io.NDArrayIter(X, Y, 4)
    with pytest.raises(AssertionError):
        it.getdata()
    assert it.iter_next() and it.getdata()[0].shape == (4, 2) and it.getlabel()[0].shape == (4,)
    assert it.getpad() == 0 and it.getindex() is None
    assert it.iter_next() and it.iter_next() and it.getpad() == 2 and not it.iter_next()
    with pytest.raises(StopIteration):
        it.next()


def test_descriptions():
    desc = io.NDArrayIter(X, Y, 4).provide_data[0]
    name, shape = desc
    assert (name, shape) == ("data", (4, 2)) and desc.dtype == np.float32 and desc.layout == "NCHW"
    assert repr(desc).startswith("DataDesc[data,(4, 2),") and desc == ("data", (4, 2))
    assert [io.DataDesc.get_batch_axis(x) for x in ("NCHW", "TNC", None)] == [0, 1, 0]
    assert io.DataDesc.get_list([("a", (1, 2))], [("a", np.int32)])[0].dtype == np.int32
    assert io.DataDesc.get_list([("a", (1, 2))], None)[0].dtype == np.float32
    with pytest.raises(AssertionError):
        io.DataBatch(nd.ones(2))


def test_iterator_of_ones_own():
    class Count(io.DataIter):
        def __init__(self):
            super().__init__(1)
            self.i = 0

        def iter_next(self):
            self.i += 1
            return self.i <= 3

        def getdata(self):
            return [nd.array([self.i])]

        def getlabel(self):
            return [nd.array([-self.i])]

        def getpad(self):
            return 0

    assert [b.data[0].asscalar() for b in Count()] == [1, 2, 3]


# ---- over other iterators ------------------------------------------------------------------------------------------

def test_resize_iter():
    it = io.ResizeIter(io.NDArrayIter(X, Y, 4), 5)
    for _ in range(2):
        assert [labels[0] for labels, _ in epoch(it)] == [0, 4, 8, 0, 4]
        it.reset()
    it = io.ResizeIter(io.NDArrayIter(X, Y, 4), 2, reset_internal=False)
    assert [labels[0] for labels, _ in epoch(it)] == [0, 4]
    it.reset()
    assert [labels[0] for labels, _ in epoch(it)] == [8, 0]


def test_prefetching_iter():
    it = io.PrefetchingIter(io.NDArrayIter(X, Y, 4))
    for _ in range(3):
        assert epoch(it) == [([0, 1, 2, 3], 0), ([4, 5, 6, 7], 0), ([8, 9, 0, 1], 2)]
        with pytest.raises(StopIteration):
            it.next()
        it.reset()
    it.next()
    it.reset()
    assert len(epoch(it)) == 3
    two = io.PrefetchingIter([io.NDArrayIter(X, Y, 4), io.NDArrayIter(X, Y, 4)],
                             rename_data=[{"data": "left"}, {"data": "right"}],
                             rename_label=[{"softmax_label": "l"}, {"softmax_label": "r"}])
    assert [d.name for d in two.provide_data + two.provide_label] == ["left", "right", "l", "r"] and two.batch_size == 4
    assert [len(b.data) for b in two] == [2, 2, 2]
    uneven = io.PrefetchingIter([io.NDArrayIter(X, Y, 4), io.NDArrayIter(X, Y, 10)])
    with pytest.raises(AssertionError):
        list(uneven)


def test_errors_of_prefetching_iter():
    class Broken(io.NDArrayIter):
        def next(self):
            if self.cursor >= 0:
                raise KeyError("broken")
            return super().next()

    it = io.PrefetchingIter(Broken(X, Y, 4))
    it.next()
    with pytest.raises(KeyError):
        it.next()


# ---- files ---------------------------------------------------------------------------------------------------------

@pytest.fixture
def csv(tmp_path):
    (tmp_path / "d.csv").write_text("".join(",".join(str(4 * i + j) for j in range(4)) + "\n" for i in range(5)))
    (tmp_path / "l.csv").write_text("".join(f"{i}\n" for i in range(5)))
    return str(tmp_path / "d.csv"), str(tmp_path / "l.csv")


def test_csv_iter(csv):
    data, label = csv
    it = io.CSVIter(data_csv=data, data_shape=(4,), label_csv=label, batch_size=2)
    assert it.provide_data == [("data", (2, 4))] and it.provide_label == [("softmax_label", (2,))]
    assert epoch(it) == [([0, 1], 0), ([2, 3], 0), ([4, 0], 1)]
    it.reset()
    assert epoch(it) == [([1, 2], 0), ([3, 4], 0)], "the epoch begins after the examples that filled the last batch"
    it.reset()
    assert epoch(it)[0] == ([0, 1], 0)
    it = io.CSVIter(data_csv=data, data_shape=(2, 2), batch_size=2, round_batch=False, dtype="int32")
    for _ in range(2):
        batches = list(it)
        assert [b.pad for b in batches] == [0, 0, 1] and batches[0].data[0].dtype == np.int32
        assert batches[1].data[0].asnumpy().tolist() == [[[8, 9], [10, 11]], [[12, 13], [14, 15]]]
        it.reset()
    assert batches[0].label[0].asnumpy().tolist() == [0, 0] and batches[0].index.tolist() == [0, 1]


def test_bad_csv(csv, tmp_path):
    data, label = csv
    with pytest.raises(ValueError, match="4 numbers in a line"):
        io.CSVIter(data_csv=data, data_shape=(5,), batch_size=2)
    with pytest.raises(mx.MXNetError, match="none.csv"):
        io.CSVIter(data_csv=str(tmp_path / "none.csv"), data_shape=(4,), batch_size=2)
    (tmp_path / "bad.csv").write_text("1,2\n3,x\n")
    with pytest.raises(mx.MXNetError, match="2"):
        io.CSVIter(data_csv=str(tmp_path / "bad.csv"), data_shape=(2,), batch_size=2)


def write_idx(path, array, packed=False):
    data = struct.pack(">HBB", 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()
    path.write_bytes(gzip.compress(data) if packed else data)


def test_mnist_iter(tmp_path):
    images = np.random.randint(0, 256, (7, 28, 28)).astype("uint8")
    labels = np.arange(7).astype("uint8")
    write_idx(tmp_path / "images", images)
    write_idx(tmp_path / "labels.gz", labels, packed=True)
    paths = {"image": str(tmp_path / "images"), "label": str(tmp_path / "labels.gz")}
    it = io.MNISTIter(batch_size=3, shuffle=False, **paths)
    assert it.provide_data == [("data", (3, 1, 28, 28))]
    batches = list(it)
    assert [b.label[0].asnumpy().tolist() for b in batches] == [[0, 1, 2], [3, 4, 5]]
    assert np.allclose(batches[1].data[0].asnumpy()[0, 0], images[3] / 256.0)
    shuffled = io.MNISTIter(batch_size=7, shuffle=True, flat=True, seed=3, **paths)
    batch = shuffled.next()
    order = batch.label[0].asnumpy().astype(int)
    assert batch.data[0].shape == (7, 784) and sorted(order) == list(range(7)) and list(order) != list(range(7))
    assert np.allclose(batch.data[0].asnumpy()[0], images[order[0]].ravel() / 256.0)
    part = io.MNISTIter(batch_size=3, shuffle=False, num_parts=2, part_index=1, **paths)
    assert [b.label[0].asnumpy().tolist() for b in part] == [[3, 4, 5]]
    with pytest.raises(ValueError, match="greater than"):
        io.MNISTIter(batch_size=30, **paths)
    with pytest.raises(ValueError, match="do not match"):
        io.MNISTIter(batch_size=3, image=paths["label"], label=paths["label"])
    old = io.MNISTIter(batch_size=3, shuffle=False, data_shape=(784,), input_shape=(1, 28, 28), whatever=1, **paths)
    assert old.next().index.tolist() == [0, 0, 0] == old.getindex().tolist()


# ---- image records -------------------------------------------------------------------------------------------------

@pytest.fixture
def rec(tmp_path):
    writer = recordio.MXIndexedRecordIO(str(tmp_path / "a.idx"), str(tmp_path / "a.rec"), "w")
    for i in range(7):
        image = np.full((12 + i, 14, 3), 10 * i, dtype="uint8")
        image[:, 7:] += 5
        writer.write_idx(i, recordio.pack_img((0, float(i), i, 0), image, quality=3, img_fmt=".png"))
    writer.close()
    return str(tmp_path / "a.rec")


def records(rec, **options):
    return io.ImageRecordIter(path_imgrec=rec, data_shape=(3, 8, 8), batch_size=3, **options)


def test_image_record_iter(rec):
    threads = threading.active_count()
    it = records(rec, preprocess_threads=2)
    assert threading.active_count() == threads, "threads start with the first batch"
    assert it.provide_data == [("data", (3, 3, 8, 8))] and it.provide_label == [("softmax_label", (3,))]
    assert epoch(it) == [([0, 1, 2], 0), ([3, 4, 5], 0), ([6, 0, 1], 2)]
    it.reset()
    assert epoch(it)[0] == ([2, 3, 4], 0)
    batch = records(rec, mean_r=5, mean_g=5, mean_b=5, std_r=2, std_g=2, std_b=2, scale=0.5).next()
    assert batch.data[0].dtype == np.float32
    assert np.allclose(batch.data[0].asnumpy()[1, 0, 0], [1.25] * 4 + [2.5] * 4)
    assert io.ImageRecordUInt8Iter(path_imgrec=rec, data_shape=(3, 8, 8), batch_size=3).next().data[0].dtype == np.uint8
    assert records(rec, resize=9).next().data[0].shape == (3, 3, 8, 8)
    assert records(rec, pad=4, fill_value=0, rand_crop=True).next().data[0].shape == (3, 3, 8, 8)
    mirrored = records(rec, mirror=True).next().data[0].asnumpy()[1, 0, 0]
    assert mirrored.tolist() == [15] * 4 + [10] * 4


def test_random_image_records(rec):
    options = dict(shuffle=True, rand_crop=True, rand_mirror=True, brightness=0.2, contrast=0.2, saturation=0.2,
                   pca_noise=0.1, random_resized_crop=True, min_random_area=0.3, max_aspect_ratio=1.3,
                   min_aspect_ratio=0.7)

    def all_of(**more):
        batches = records(rec, **options, **more)
        return [np.concatenate([b.data[0].asnumpy().ravel(), b.label[0].asnumpy()]) for b in batches]

    first = all_of(seed=4, preprocess_threads=1)
    assert np.array_equal(first, all_of(seed=4, preprocess_threads=4)), "threads change nothing"
    assert not np.array_equal(first, all_of(seed=5))
    it = records(rec, shuffle=True, seed=1, round_batch=False)
    orders = []
    for _ in range(2):
        orders.append([x for labels, _ in epoch(it) for x in labels][:7])
        it.reset()
    assert orders[0] != orders[1] and sorted(orders[0]) == sorted(orders[1]) == list(range(7))


@pytest.fixture
def ramp(tmp_path):
    """Four images (20, 24, 3): columns times 8, rows times 10, the number of the image."""
    writer = recordio.MXIndexedRecordIO(str(tmp_path / "r.idx"), str(tmp_path / "r.rec"), "w")
    y, x = np.mgrid[:20, :24]
    for i in range(4):
        image = np.stack([x * 8, y * 10, np.full_like(x, i * 20)], -1).astype("uint8")
        writer.write_idx(i, recordio.pack_img((0, float(i), i, 0), image[..., ::-1], quality=3, img_fmt=".png"))
    writer.close()
    return str(tmp_path / "r.rec")


def ramps(ramp, shape=(3, 12, 12), **options):
    """The first batch of all four images."""
    made = io.ImageRecordIter(path_imgrec=ramp, data_shape=shape, batch_size=4, **options)
    return made.next().data[0].asnumpy()


def test_turned_image_records(ramp):
    plain = ramps(ramp)
    assert plain[0, 0, 0].tolist() == [8 * x for x in range(6, 18)] and plain[0, 1, :, 0].tolist() == [10 * y for y in range(4, 16)]
    turned = ramps(ramp, rotate=90)  # counter-clockwise around (12, 10): rows become columns
    assert turned[0, 1, 5].tolist() == [40 + 10 * x for x in range(12)]
    assert turned[0, 0, 1:, 5].tolist() == [8 * x for x in range(17, 6, -1)]
    assert (ramps(ramp, (3, 20, 24), rotate=45, fill_value=7)[:, :, 0, 0] == 7).all()
    halved = ramps(ramp, (3, 10, 12), min_random_scale=0.5, max_random_scale=0.5)
    assert halved[0, 0, 5].tolist() == [16 * x for x in range(12)]
    doubled = ramps(ramp, min_random_scale=2, max_random_scale=2)
    assert np.allclose(np.diff(doubled[0, 0, 5]), 4)
    wide = ramps(ramp, min_aspect_ratio=1.5, max_aspect_ratio=1.5)
    assert np.allclose(np.diff(wide[0, 0, 5]), 8 / 0.8, atol=1.01)
    for options in (dict(max_rotate_angle=40), dict(max_shear_ratio=0.4), dict(min_random_scale=0.7)):
        one, two, other = (ramps(ramp, seed_aug=s, **options) for s in (1, 1, 2))
        assert np.array_equal(one, two) and not np.array_equal(one, other), options
        assert not np.array_equal(one[0, :2], one[1, :2]), "every image has draws of its own"
    cut = ramps(ramp, (3, 8, 8), min_crop_size=16, max_crop_size=16)
    assert np.allclose(np.diff(cut[0, 0, 4]), 16)


def test_seed_aug_repeats_every_epoch(ramp):
    for options, same in ((dict(seed_aug=3), True), (dict(seed=3), False)):
        it = io.ImageRecordIter(path_imgrec=ramp, data_shape=(3, 12, 12), batch_size=4, rand_crop=True,
                                max_rotate_angle=30, **options)
        first = it.next().data[0].asnumpy()
        it.reset()
        assert np.array_equal(first, it.next().data[0].asnumpy()) == same


def test_coloured_image_records(ramp):
    plain = ramps(ramp)
    for options in (dict(random_h=60), dict(random_l=60), dict(random_s=60)):
        one, two, other = (ramps(ramp, seed_aug=s, **options) for s in (1, 1, 2))
        assert np.array_equal(one, two) and not np.array_equal(one, other) and not np.array_equal(one, plain)
    contrast = ramps(ramp, max_random_contrast=0.5, mean_r=20, scale=2.0, std_r=4.0)
    factor = contrast[:, 1] / (2 * plain[:, 1])
    assert np.allclose(factor.min(axis=(1, 2)), factor.max(axis=(1, 2))) and len(set(factor[:, 0, 0])) == 4
    assert np.allclose(contrast[:, 0], (plain[:, 0] - 20) * factor[:, :1, :1] * 2 / 4, atol=1e-3)
    assert (abs(factor - 1) <= 0.5).all()
    light = ramps(ramp, max_random_illumination=30) - plain
    assert np.ptp(light[0]) < 1e-4 and (abs(light) <= 30).all() and len(set(light[:, 0, 0, 0])) == 4


def test_mean_images(ramp, tmp_path):
    path, plain = str(tmp_path / "mean.bin"), ramps(ramp)
    result = ramps(ramp, mean_img=path, scale=0.5)
    assert np.allclose(result, (plain - plain.mean(axis=0)) * 0.5)
    mean = mx.nd.load(path)
    assert list(mean) == ["mean_img"] and np.allclose(mean["mean_img"].asnumpy(), plain.mean(axis=0))
    mx.nd.save(path, {"mean_img": mean["mean_img"] * 0 + 7})
    assert np.allclose(ramps(ramp, mean_img=path), plain - 7), "an existing file is used"
    assert np.allclose(ramps(ramp, mean_img=path, mirror=True), (plain - 7)[..., ::-1])
    with pytest.raises(ValueError, match=r"mean.bin.*\(3, 12, 12\), expected one of shape \(3, 10, 10\)"):
        ramps(ramp, (3, 10, 10), mean_img=path)


def test_old_names_of_iterators(ramp):
    assert io.ImageRecordIter_v1(path_imgrec=ramp, data_shape=(3, 8, 8), batch_size=4).next().data[0].shape == (4, 3, 8, 8)
    assert io.ImageRecordUInt8Iter_v1 is io.ImageRecordUInt8Iter


def test_sources_of_image_records(rec, tmp_path):
    parts = [epoch(records(rec, num_parts=2, part_index=i, round_batch=False)) for i in range(2)]
    assert parts[0][0] == ([0, 1, 2], 0) and parts[1] == [([4, 5, 6], 0)]
    (tmp_path / "a.idx").rename(tmp_path / "elsewhere.idx")
    assert epoch(records(rec, round_batch=False))[1] == ([3, 4, 5], 0), "without an index the file is scanned"
    assert epoch(records(rec, path_imgidx=str(tmp_path / "elsewhere.idx")))[1] == ([3, 4, 5], 0)
    (tmp_path / "a.lst").write_text("".join(f"{i}\t{i}\t{-i}\tx.png\n" for i in range(7)))
    batch = records(rec, path_imglist=str(tmp_path / "a.lst"), label_width=2).next()
    assert batch.label[0].asnumpy().tolist() == [[0, 0], [1, -1], [2, -2]]


def test_wrong_image_records(rec, tmp_path):
    with pytest.warns(UserWarning, match="ignores the unknown keyword colour"):
        assert records(rec, colour=1).next() is not None
    with pytest.raises(mx.MXNetError, match="data_shape is .5, 8, 8."):
        io.ImageRecordIter(path_imgrec=rec, data_shape=(5, 8, 8), batch_size=3)
    for options, said in ((dict(max_crop_size=30, min_crop_size=2), "max_crop_size=30"),
                          (dict(max_crop_size=2, min_crop_size=3), "min_crop_size=3")):
        with pytest.raises(ValueError, match=said):
            records(rec, **options).next()
    with pytest.raises(ValueError, match="min_random_scale=2"):
        records(rec, min_random_scale=2)
    with pytest.raises(ValueError, match="label_width"):
        records(rec, label_width=2).next()
    with pytest.raises(mx.MXNetError, match="none.rec"):
        records(str(tmp_path / "none.rec"))
    writer = recordio.MXRecordIO(str(tmp_path / "bad.rec"), "w")
    writer.write(recordio.pack((0, 1.0, 0, 0), b"no image"))
    writer.close()
    with pytest.raises(mx.MXNetError):
        records(str(tmp_path / "bad.rec")).next()


# ---- arrays of other kinds and lengths -----------------------------------------------------------------------------

def test_sparse_arrays():
    csr = mx.nd.array(np.eye(6)).tostype("csr")
    for handle in ("pad", "roll_over"):
        with pytest.raises(NotImplementedError, match="csr.*'discard'"):
            io.NDArrayIter(csr, np.arange(6), 4, last_batch_handle=handle)
    batch, = io.NDArrayIter({"x": csr}, np.arange(6), 4, last_batch_handle="discard")
    assert batch.data[0].stype == "csr" and np.array_equal(batch.data[0].asnumpy(), np.eye(6)[:4])
    rows = io.NDArrayIter(mx.nd.array(np.eye(6)).tostype("row_sparse"), None, 4)
    assert [b.data[0].shape for b in rows] == [(4, 6), (4, 6)]


def test_labels_of_another_length():
    it = io.NDArrayIter(np.arange(6), np.arange(9), 4)
    assert [b.label[0].asnumpy().tolist() for b in it] == [[0, 1, 2, 3], [4, 5, 0, 1]]
    with pytest.raises(ValueError, match="'softmax_label' has 4 examples, 'data' has 6"):
        io.NDArrayIter(np.arange(6), np.arange(4), 2)


# ---- image records with boxes --------------------------------------------------------------------------------------

@pytest.fixture
def boxes(tmp_path):
    """Three images (20, 30) with 1, 2, 3 boxes of classes 0, 1, 2."""
    writer = recordio.MXIndexedRecordIO(str(tmp_path / "b.idx"), str(tmp_path / "b.rec"), "w")
    y, x = np.mgrid[:20, :30]
    image = np.stack([x * 8, y * 10, x + y], -1).astype("uint8")
    for i in range(3):
        label = [4, 5, 30, 20] + [n for k in range(i + 1) for n in (k, 0.1, 0.2, 0.5 + 0.1 * k, 0.6)]
        writer.write_idx(i + 5, recordio.pack_img((0, np.array(label, "float32"), i + 5, 0), image[..., ::-1], quality=3,
                                                  img_fmt=".png"))
    writer.close()
    return str(tmp_path / "b.rec")


def boxed(rec, shape=(3, 16, 16), **options):
    return io.ImageDetRecordIter(path_imgrec=rec, data_shape=shape, batch_size=3, **options)


def test_image_det_record_iter(boxes):
    it = boxed(boxes)
    assert it.provide_data == [("data", (3, 3, 16, 16))] and it.provide_label == [("softmax_label", (3, 23))]
    batch = it.next()
    label = batch.label[0].asnumpy()
    assert label[0].tolist()[:8] == [3, 16, 16, 9, 4, 5, 30, 20] and np.allclose(label[0, 8:13], [0, 0.1, 0.2, 0.5, 0.6])
    assert (label[0, 13:] == -1).all() and label[:, 3].tolist() == [9, 14, 19] and batch.index.tolist() == [5, 6, 7]
    assert boxed(boxes, label_pad_width=40, label_pad_value=-5).next().label[0].asnumpy()[0, 13:].tolist() == [-5] * 31
    plain = batch.data[0].asnumpy()
    mirrored = boxed(boxes, rand_mirror_prob=1.0).next()
    assert np.allclose(mirrored.data[0].asnumpy(), plain[..., ::-1])
    assert np.allclose(mirrored.label[0].asnumpy()[2, 18:23], [2, 0.3, 0.2, 0.9, 0.6])
    scaled = boxed(boxes, mean_r=10, std_r=2, scale=0.5).next().data[0].asnumpy()
    assert np.allclose(scaled[:, 0], (plain[:, 0] - 10) / 4) and np.allclose(scaled[:, 1], plain[:, 1] / 2)


def test_sizes_of_images_with_boxes(boxes):
    for mode, shape, size in (("shrink", (3, 16, 16), (10, 16)), ("fit", (3, 16, 16), (10, 16)),
                              ("shrink", (3, 60, 60), (20, 30)), ("fit", (3, 60, 60), (40, 60))):
        batch = boxed(boxes, shape, resize_mode=mode).next()
        data = batch.data[0].asnumpy()
        assert tuple(batch.label[0].asnumpy()[0, 1:3]) == size and data.shape[2:] == shape[1:]
        assert (data[:, :, size[0]:] == 0).all() and data[0, 1, size[0] - 1, 0] > 100, "the rest is zero"


def test_random_images_with_boxes(boxes):
    """A box moves with the pixels: red is 8 times the column, green 10 times the row."""
    def check(batch):
        for image, label in zip(batch.data[0].asnumpy(), batch.label[0].asnumpy()):
            for k in range(int(label[3] - 4) // 5):
                _, left, top, right, bottom = label[8 + 5 * k:13 + 5 * k]
                x, y = (left + right) / 2 * 60, (top + bottom) / 2 * 40
                colour = image[:, int(min(y, 39)), int(min(x, 59))]
                yield colour[0] / 8 / 30, colour[1] / 10 / 20

    padded = boxed(boxes, (3, 40, 60), rand_pad_prob=1.0, max_pad_scale=2.0, seed=3).next()
    first = list(check(padded))[0]
    assert np.allclose(first, (0.3, 0.4), atol=0.08), "the centre of the box shows the same part"
    assert (padded.data[0].asnumpy() == 127).any()
    crop = dict(rand_crop_prob=1.0, min_crop_scales=(0.6,), max_crop_scales=(0.9,), min_crop_object_coverages=(0.99,))
    cropped = boxed(boxes, (3, 40, 60), seed=3, **crop).next()
    assert np.allclose(list(check(cropped))[0], (0.3, 0.4), atol=0.08)
    one, two, other = (boxed(boxes, seed_aug=s, **crop).next().label[0].asnumpy() for s in (1, 1, 2))
    assert np.array_equal(one, two) and not np.array_equal(one, other)
    kept = boxed(boxes, crop_emit_mode="overlap", emit_overlap_thresh=0.99, seed=3, **crop).next().label[0].asnumpy()
    assert (kept[:, 3] >= 9).all() and kept[:, 8:].max() <= 2.0001
    plain = boxed(boxes).next().data[0].asnumpy()
    for options in (dict(max_random_hue=40, random_hue_prob=1.0), dict(max_random_contrast=0.5, random_contrast_prob=1.0)):
        assert not np.array_equal(boxed(boxes, seed=1, **options).next().data[0].asnumpy(), plain)


def test_wrong_images_with_boxes(boxes, rec):
    for options, said in ((dict(resize_mode="other"), "resize_mode is 'other'"), (dict(crop_emit_mode="x"), "'overlap'"),
                          (dict(label_width=9), "labels of 9, 14, 19"), (dict(label_pad_width=10), "label_pad_width is 10")):
        with pytest.raises(ValueError, match=said):
            boxed(boxes, **options)
    with pytest.raises(ValueError, match="length of its header"):
        boxed(rec).next()  # labels that are one number
