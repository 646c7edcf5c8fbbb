"""mx.image: files, sizes, crops, augmenters, iterators; images are encoded by hand or by the library."""
import json
import random
import struct
import zlib

import numpy as np
import pytest

import mxnet as mx
from mxnet import image, nd, recordio


def png(pixels):
    """The bytes of a PNG file with (H, W) or (H, W, 3) pixels, made without the library."""
    height, width = pixels.shape[:2]
    colour = 2 if pixels.ndim == 3 else 0

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def jpeg(pixels):
    """RGB pixels as JPEG."""
    return recordio.unpack(recordio.pack_img((0, 0.0, 0, 0), pixels[:, :, ::-1]))[1]


@pytest.fixture
def pixels():
    return np.random.RandomState(0).randint(0, 255, (20, 30, 3)).astype("uint8")


def array(x, **kwargs):
    return nd.array(x, dtype=x.dtype, **kwargs)


# ---- files ---------------------------------------------------------------------------------------------------------

def test_imdecode(pixels):
    data = png(pixels)
    for source in (data, bytearray(data), np.frombuffer(data, dtype="uint8"),
                   nd.array(list(data), dtype="uint8", ctx=mx.cpu())):
        decoded = image.imdecode(source)
        assert decoded.dtype == np.uint8 and np.array_equal(decoded.asnumpy(), pixels)
    assert np.array_equal(image.imdecode(data, to_rgb=False).asnumpy(), pixels[:, :, ::-1])
    gray = image.imdecode(data, flag=0)
    assert gray.shape == (20, 30, 1)
    assert np.abs(gray.asnumpy()[:, :, 0] - pixels @ [0.299, 0.587, 0.114]).max() <= 1
    assert image.imdecode(png(pixels[:, :, 0]), flag=1).shape == (20, 30, 3)
    assert image.imdecode(png(pixels[:, :, 0]), flag=-1).shape == (20, 30, 1)
    out = nd.zeros((20, 30, 3), dtype="uint8", ctx=mx.cpu())
    assert image.imdecode(data, out=out) is out and np.array_equal(out.asnumpy(), pixels)


def test_other_formats(pixels, tmp_path):
    smooth = (np.add.outer(np.arange(32), np.arange(48))[:, :, None] * np.array([1, 1, 1]) + 30).astype("uint8")
    assert np.abs(image.imdecode(jpeg(smooth)).asnumpy().astype(int) - smooth).mean() < 2
    assert np.array_equal(image.imdecode(b"P6 30 20 255\n" + pixels.tobytes()).asnumpy(), pixels)


def test_imread(pixels, tmp_path):
    path = tmp_path / "a.png"
    path.write_bytes(png(pixels))
    assert np.array_equal(image.imread(str(path)).asnumpy(), pixels)
    assert np.array_equal(image.imread(path, to_rgb=False).asnumpy(), pixels[:, :, ::-1])
    with pytest.raises(mx.MXNetError, match="none.jpg"):
        image.imread(str(tmp_path / "none.jpg"))


def test_bad_images(pixels):
    for bad in (b"", b"12345678", png(pixels)[:60], jpeg(pixels)[:200]):
        with pytest.raises(mx.MXNetError):
            image.imdecode(bad)
    for wrong in ("text", 5, None):
        with pytest.raises(ValueError, match="imdecode"):
            image.imdecode(wrong)
    with pytest.raises(mx.MXNetError, match="flag"):
        image.imdecode(png(pixels), flag=5)


# ---- sizes and crops -----------------------------------------------------------------------------------------------

def test_sizes(pixels):
    x = array(pixels)
    assert image.imresize(x, 12, 7).shape == (7, 12, 3)
    assert np.array_equal(image.imresize(x, 60, 40, 0).asnumpy(), pixels.repeat(2, 0).repeat(2, 1))
    halved = image.imresize(x.astype("float32"), 15, 10, interp=3).asnumpy()
    assert np.allclose(halved, pixels.reshape(10, 2, 15, 2, 3).mean((1, 3)), atol=1e-3)
    assert image.resize_short(x, 10).shape == (10, 15, 3)
    assert image.resize_short(x.transpose((1, 0, 2)), 10).shape == (15, 10, 3)
    assert image.scale_down((640, 480), (720, 120)) == (640, 106)
    assert image.scale_down((360, 1000), (480, 500)) == (360, 375)
    for interp in (9, 10):
        assert image.imresize(x, 8, 8, interp=interp).shape == (8, 8, 3)
    with pytest.raises(mx.MXNetError, match="interp"):
        image.imresize(x, 8, 8, interp=7)


def test_crops(pixels):
    x = array(pixels)
    assert np.array_equal(image.fixed_crop(x, 3, 2, 5, 4).asnumpy(), pixels[2:6, 3:8])
    assert image.fixed_crop(x, 3, 2, 5, 4, (10, 9)).shape == (9, 10, 3)
    assert image.fixed_crop(x, 28, 1, 6, 6).shape == (6, 2, 3), "what lies outside is cut off"
    middle, region = image.center_crop(x, (10, 8))
    assert region == (10, 6, 10, 8) and np.array_equal(middle.asnumpy(), pixels[6:14, 10:20])
    large, region = image.center_crop(x, (40, 40))
    assert large.shape == (40, 40, 3) and region == (5, 0, 20, 20)
    for _ in range(20):
        crop, (x0, y0, w, h) = image.random_crop(x, (9, 7))
        assert np.array_equal(crop.asnumpy(), pixels[y0:y0 + 7, x0:x0 + 9]) and (w, h) == (9, 7)
        crop, (x0, y0, w, h) = image.random_size_crop(x, (9, 7), (0.2, 0.5), (0.5, 2.0))
        assert crop.shape == (7, 9, 3) and 0 <= x0 <= 30 - w and 0 <= y0 <= 20 - h
        assert 0.15 < w * h / 600 < 0.55 and 0.4 < w / h < 2.5
    random.seed(7)
    first = image.random_crop(x, (9, 7))[1]
    random.seed(7)
    assert image.random_crop(x, (9, 7))[1] == first
    assert image.random_size_crop(x, (9, 7), 0.1, (1.5, 1.5), min_area=0.9)[1][2] >= 28
    with pytest.raises(TypeError):
        image.random_size_crop(x, (9, 7), 0.5, (0.5, 2.0), unknown=1)
    with pytest.raises(ValueError):
        image.random_size_crop(x, (9, 7), 0.5, (0.0, 2.0))


def test_border_and_colours(pixels):
    x = array(pixels)
    framed = image.copyMakeBorder(x, 1, 2, 3, 4, values=(9.0, 8.0, 7.0)).asnumpy()
    assert framed.shape == (23, 37, 3) and framed[0, 0].tolist() == [9, 8, 7]
    assert np.array_equal(framed[1:21, 3:33], pixels)
    repeated = image.copyMakeBorder(x, 1, 1, 1, 1, type=1).asnumpy()
    assert np.array_equal(repeated, np.pad(pixels, ((1, 1), (1, 1), (0, 0)), "edge"))
    f = x.astype("float32")
    mean, std = nd.array([1, 2, 3]), nd.array([2, 4, 5])
    assert np.allclose(image.color_normalize(f, mean, std).asnumpy(), (pixels - [1, 2, 3]) / [2, 4, 5], atol=1e-5)
    assert np.allclose(image.color_normalize(f, None, std).asnumpy(), pixels / [2, 4, 5], atol=1e-5)


def test_rotation():
    x = np.random.rand(3, 9, 9).astype("float32")
    assert np.allclose(image.imrotate(nd.array(x), 180).asnumpy(), x[:, ::-1, ::-1], atol=1e-4)
    assert np.allclose(image.imrotate(nd.array(x), 0).asnumpy(), x, atol=1e-5)
    pair = image.imrotate(nd.array([x, x]), nd.array([0, 180])).asnumpy()
    assert np.allclose(pair[0], x, atol=1e-4) and np.allclose(pair[1], x[:, ::-1, ::-1], atol=1e-4)
    ones = nd.ones((3, 9, 9))
    assert image.imrotate(ones, 45).asnumpy().min() == 0
    assert image.imrotate(ones, 45, zoom_in=True).asnumpy().min() > 0.99
    assert image.random_rotate(nd.array([x, x]), (-10, 10)).shape == (2, 3, 9, 9)
    for error, action in ((ValueError, lambda: image.imrotate(ones, 5, True, True)),
                          (TypeError, lambda: image.imrotate(ones.astype("uint8"), 5)),
                          (TypeError, lambda: image.imrotate(ones, nd.array([5]))),
                          (ValueError, lambda: image.imrotate(nd.array([x, x]), nd.array([5]))),
                          (ValueError, lambda: image.random_rotate(ones, (5, -5)))):
        with pytest.raises(error):
            action()


# ---- augmenters ----------------------------------------------------------------------------------------------------

def test_jitter(pixels):
    f = array(pixels).astype("float32")
    x = pixels.astype("float64")
    gray = x @ [0.299, 0.587, 0.114]

    def drawn(amount):
        random.seed(11)
        return 1 + random.uniform(-amount, amount)

    for aug, wanted in ((image.BrightnessJitterAug(0.5), x * drawn(0.5)),
                        (image.ContrastJitterAug(0.5), x * drawn(0.5) + (1 - drawn(0.5)) * gray.mean()),
                        (image.SaturationJitterAug(0.5), x * drawn(0.5) + (1 - drawn(0.5)) * gray[:, :, None])):
        random.seed(11)
        assert np.allclose(aug(f).asnumpy(), wanted, atol=2e-3), type(aug).__name__
    assert np.allclose(image.HueJitterAug(0)(f).asnumpy(), x, atol=1)
    assert np.array_equal(f.asnumpy(), pixels), "augmenters do not change their input"
    np.random.seed(3)
    shifted = image.LightingAug(0.5, np.array([1.0, 2, 3]), np.eye(3))(f).asnumpy() - pixels
    np.random.seed(3)
    assert np.allclose(shifted[0, 0], np.random.normal(0, 0.5, 3) * [1, 2, 3], atol=1e-3)
    assert np.allclose(shifted, shifted[0, 0], atol=1e-3)


def test_simple_augmenters(pixels):
    x = array(pixels)
    assert np.array_equal(image.HorizontalFlipAug(1)(x).asnumpy(), pixels[:, ::-1])
    assert image.HorizontalFlipAug(0)(x) is x
    grayed = image.RandomGrayAug(1)(x.astype("float32")).asnumpy()
    assert np.allclose(grayed, (pixels @ [0.21, 0.72, 0.07])[:, :, None], atol=1e-2) and grayed.shape == pixels.shape
    assert image.ResizeAug(10)(x).shape == (10, 15, 3) and image.ForceResizeAug((8, 9))(x).shape == (9, 8, 3)
    assert image.CenterCropAug((8, 9))(x).shape == (9, 8, 3) and image.RandomCropAug((8, 9))(x).shape == (9, 8, 3)
    assert image.RandomSizedCropAug((8, 9), 0.2, (0.5, 2))(x).shape == (9, 8, 3)
    assert image.CastAug()(x).dtype == np.float32
    assert image.SequentialAug([image.CastAug(), image.ResizeAug(5)])(x).shape == (5, 7, 3)
    assert image.RandomOrderAug([image.CastAug("float64")])(x).dtype == np.float64
    normalized = image.ColorNormalizeAug([1, 2, 3], [2, 2, 2])(x.astype("float32")).asnumpy()
    assert np.allclose(normalized, (pixels - [1.0, 2, 3]) / 2)


def test_dumps():
    assert json.loads(image.RandomCropAug((8, 9)).dumps()) == ["randomcropaug", {"size": [8, 9], "interp": 2}]
    assert json.loads(image.CastAug().dumps()) == ["castaug", {"type": "float32"}]
    parts = ['["brightnessjitteraug", {"brightness": 0.1}]', '["saturationjitteraug", {"saturation": 0.2}]']
    assert image.ColorJitterAug(0.1, 0, 0.2).dumps() == ["colorjitteraug", parts]
    assert json.loads(image.ColorNormalizeAug(np.array([1.0]), None).dumps())[1] == {"mean": [1.0], "std": None}
    with pytest.raises(NotImplementedError):
        image.Augmenter()(None)


def test_create_augmenter():
    def names(**kwargs):
        return [type(a).__name__ for a in image.CreateAugmenter((3, 8, 8), **kwargs)]

    assert names() == ["CenterCropAug", "CastAug"]
    everything = names(resize=9, rand_crop=True, rand_mirror=True, mean=True, std=True, brightness=0.1, hue=0.1,
                       pca_noise=0.1, rand_gray=0.1)
    assert everything == ["ResizeAug", "RandomCropAug", "HorizontalFlipAug", "CastAug", "ColorJitterAug", "HueJitterAug",
                          "LightingAug", "RandomGrayAug", "ColorNormalizeAug"]
    assert names(rand_crop=True, rand_resize=True)[0] == "RandomSizedCropAug"
    for wrong in ({"rand_resize": True}, {"mean": np.array([1.0, 2.0])}):
        with pytest.raises(AssertionError):
            names(**wrong)


# ---- iterators -----------------------------------------------------------------------------------------------------

@pytest.fixture
def files(tmp_path):
    """Seven images in files, a list and a record file; image i is filled with 10 * i."""
    writer = recordio.MXIndexedRecordIO(str(tmp_path / "a.idx"), str(tmp_path / "a.rec"), "w")
    lines = []
    for i in range(7):
        data = png(np.full((10 + i, 12, 3), 10 * i, dtype="uint8"))
        (tmp_path / f"{i}.png").write_bytes(data)
        writer.write_idx(i, recordio.pack((0, float(i), i, 0), data))
        lines.append(f"{i}\t{i}\t{i}.png\n")
    writer.close()
    (tmp_path / "a.lst").write_text("".join(lines))
    return tmp_path


def sources(files):
    return [{"path_imgrec": str(files / "a.rec")},
            {"path_imgrec": str(files / "a.rec"), "path_imgidx": str(files / "a.idx")},
            {"path_imglist": str(files / "a.lst"), "path_root": str(files)},
            {"imglist": [[i, f"{i}.png"] for i in range(7)], "path_root": str(files)}]


def epoch(iterator):
    return [(b.label[0].asnumpy().tolist(), b.data[0].asnumpy()[:, 0, 0, 0].tolist(), b.pad) for b in iterator]


def test_image_iter(files):
    for source in sources(files):
        it = image.ImageIter(3, (3, 8, 8), **source)
        assert it.provide_data == [("data", (3, 3, 8, 8))] and it.provide_label == [("softmax_label", (3,))]
        for _ in range(2):
            assert epoch(it) == [([0, 1, 2], [0, 10, 20], 0), ([3, 4, 5], [30, 40, 50], 0), ([6, 0, 1], [60, 0, 10], 2)]
            it.reset()
        assert image.ImageIter(3, (3, 8, 8), dtype="int32", **source).next().data[0].dtype == np.int32


def test_last_batches_of_image_iter(files):
    source = sources(files)[1]
    it = image.ImageIter(3, (3, 8, 8), last_batch_handle="discard", **source)
    assert [labels for labels, _, _ in epoch(it)] == [[0, 1, 2], [3, 4, 5]]
    it = image.ImageIter(3, (3, 8, 8), last_batch_handle="roll_over", **source)
    assert [labels for labels, _, _ in epoch(it)] == [[0, 1, 2], [3, 4, 5]]
    it.reset()
    assert [(labels, pad) for labels, _, pad in epoch(it)] == [([6, 0, 1], 2), ([2, 3, 4], 0)]
    it.hard_reset()
    assert epoch(it)[0][0] == [0, 1, 2]


def test_order_of_image_iter(files):
    source = sources(files)[1]
    random.seed(5)
    it = image.ImageIter(7, (3, 8, 8), shuffle=True, **source)
    first = epoch(it)[0][0]
    it.reset()
    second = epoch(it)[0][0]
    assert sorted(first) == sorted(second) == list(range(7)) and first != second
    parts = [epoch(image.ImageIter(3, (3, 8, 8), num_parts=2, part_index=i, **source)) for i in range(2)]
    assert [p[0][0] for p in parts] == [[0, 1, 2], [3, 4, 5]]


def test_labels_and_augmenters_of_image_iter(files):
    it = image.ImageIter(2, (3, 8, 8), label_width=2, imglist=[[[i, -i], f"{i}.png"] for i in range(4)],
                         path_root=str(files),
                         aug_list=[image.ForceResizeAug((8, 8)), image.CastAug(), lambda x: x + 1])
    batch = it.next()
    assert batch.label[0].asnumpy().tolist() == [[0, 0], [1, -1]] and batch.data[0].asnumpy()[1, 0, 0, 0] == 11
    it = image.ImageIter(2, (3, 8, 8), mean=np.array([10.0]), std=np.array([2.0]), **sources(files)[2])
    assert it.next().data[0].asnumpy()[:, 0, 0, 0].tolist() == [-5, 0]


def test_image_iter_leaves_bad_images_out(files, caplog):
    (files / "1.png").write_bytes(b"no image")
    it = image.ImageIter(3, (3, 8, 8), **sources(files)[2])
    assert [labels for labels, _, _ in epoch(it)] == [[0, 2, 3], [4, 5, 6]]
    assert "skipped" in caplog.text
    (files / "b.lst").write_text("1\tx\t1.png\n")
    for error, wrong in ((AssertionError, {}), (AssertionError, {"path_imgrec": str(files / "a.rec"), "shuffle": True}),
                         (ValueError, {"path_imglist": str(files / "b.lst")}),
                         (FileNotFoundError, {"path_imglist": str(files / "none.lst")})):
        with pytest.raises(error):
            image.ImageIter(3, (3, 8, 8), **wrong)
    with pytest.raises(ValueError, match="expected 3 channels"):
        image.ImageIter(3, (1, 8, 8), **sources(files)[0])
    with pytest.raises(ValueError, match="after the augmenters"):
        image.ImageIter(3, (3, 8, 8), aug_list=[], **sources(files)[0]).next()


def test_overridden_methods_of_image_iter_run(files):
    called = []

    class Own(image.ImageIter):
        def next_sample(self):
            called.append("next_sample")
            return super().next_sample()

        def read_image(self, fname):
            called.append("read_image")
            return super().read_image(fname)

        def imdecode(self, s):
            called.append("imdecode")
            return super().imdecode(s) + 1

        def augmentation_transform(self, data):
            called.append("augmentation_transform")
            return super().augmentation_transform(data)

        def postprocess_data(self, datum):
            called.append("postprocess_data")
            return super().postprocess_data(datum) * 2

    class Brighter(image.Augmenter):
        def __call__(self, src):
            called.append("own augmenter")
            return src + 3

    it = Own(1, (3, 8, 8), aug_list=[image.CenterCropAug((8, 8)), image.CastAug(), Brighter()], **sources(files)[2])
    assert it.next().data[0].asnumpy()[0, 0, 0, 0] == (0 + 1 + 3) * 2
    assert called == ["next_sample", "read_image", "imdecode", "augmentation_transform", "own augmenter",
                      "postprocess_data"]


# ---- boxes ---------------------------------------------------------------------------------------------------------

LABEL = np.array([[0, 0.1, 0.1, 0.5, 0.6], [1, 0.3, 0.2, 0.9, 0.8]], dtype="float32")


def test_flip_and_pad_with_boxes(pixels):
    x = array(pixels)
    flipped, label = image.DetHorizontalFlipAug(1)(x, LABEL)
    assert np.array_equal(flipped.asnumpy(), pixels[:, ::-1])
    assert np.allclose(label[0], [0, 0.5, 0.1, 0.9, 0.6]) and LABEL[0, 1] == np.float32(0.1)
    padded, label = image.DetRandomPadAug(area_range=(2.0, 3.0), pad_val=(1, 2, 3))(x, LABEL)
    h, w = padded.shape[:2]
    assert h > 20 and w > 30
    before, after = LABEL[:, 1:5] * [30, 20, 30, 20], label[:, 1:5] * [w, h, w, h]
    moved = after - before
    assert np.allclose(moved, moved[0], atol=1e-3) and np.allclose(moved[0, :2], moved[0, 2:], atol=1e-3)
    x0, y0 = np.round(moved[0, :2]).astype(int)
    assert np.array_equal(padded.asnumpy()[y0:y0 + 20, x0:x0 + 30], pixels)


def test_crop_with_boxes(pixels):
    position = np.dstack(np.broadcast_arrays(np.arange(30), np.arange(20)[:, None], 0))
    x = array(position.astype("uint8"))
    crop = image.DetRandomCropAug(min_object_covered=0.5, area_range=(0.2, 0.8), min_eject_coverage=0.3)
    for _ in range(20):
        part, label = crop(x, LABEL)
        h, w = part.shape[:2]
        x0, y0 = part.asnumpy()[0, 0, :2].astype(float)
        assert len(label) >= 1 and label[:, 1:5].min() >= 0 and label[:, 1:5].max() <= 1
        for box in label:
            whole = LABEL[int(box[0]), 1:5] * [30, 20, 30, 20]
            back = box[1:5] * [w, h, w, h] + [x0, y0, x0, y0]
            assert np.allclose(back, np.clip(whole, [x0, y0, x0, y0], [x0 + w, y0 + h, x0 + w, y0 + h]), atol=1e-3)
    same, label = image.DetRandomCropAug(min_object_covered=2.0)(x, LABEL)
    assert same is x and label is LABEL, "no part can cover an object twice"


def test_own_det_augmenters_run(pixels, tmp_path):
    class First(image.DetAugmenter):
        def __call__(self, src, label):
            return src, label[:1]

    writer = recordio.MXRecordIO(str(tmp_path / "a.rec"), "w")
    writer.write(recordio.pack((0, [2, 5] + LABEL.ravel().tolist(), 0, 0), png(pixels)))
    writer.close()
    chosen = image.DetRandomSelectAug([First()])
    it = image.ImageDetIter(1, (3, 8, 8), path_imgrec=str(tmp_path / "a.rec"),
                            aug_list=[chosen, image.DetBorrowAug(image.ForceResizeAug((8, 8)))])
    label = it.next().label[0].asnumpy()
    assert label.shape == (1, 2, 5) and np.allclose(label[0, 0], LABEL[0]) and (label[0, 1] == -1).all()


def test_draws_come_from_the_module_random(pixels, monkeypatch):
    """A replacement of random's functions is called, and its exceptions propagate."""
    x = array(pixels)
    monkeypatch.setattr(random, "randint", lambda low, high: high)
    assert image.random_crop(x, (9, 7))[1] == (21, 13, 9, 7)

    def fail(low, high):
        raise KeyError("no numbers")
    monkeypatch.setattr(random, "uniform", fail)
    for call in (lambda: image.random_size_crop(x, (9, 7), 0.1, (0.5, 2)), lambda: image.DetRandomCropAug()(x, LABEL),
                 lambda: image.DetRandomPadAug()(x, LABEL)):
        with pytest.raises(KeyError, match="no numbers"):
            call()


def test_create_det_augmenter():
    names = [type(a).__name__ for a in image.CreateDetAugmenter((3, 30, 30), resize=40, rand_crop=0.5, rand_pad=0.5,
                                                                rand_mirror=True, mean=True, std=True, brightness=0.1)]
    assert names == (["DetBorrowAug", "DetRandomSelectAug", "DetHorizontalFlipAug", "DetRandomSelectAug"]
                     + ["DetBorrowAug"] * 4)
    several = image.CreateMultiRandCropAugmenter([0.1, 0.5], [(0.7, 1.3), (0.5, 2)])
    assert len(several.aug_list) == 2 and several.aug_list[1].min_object_covered == 0.5
    with pytest.raises(ValueError):
        image.CreateMultiRandCropAugmenter([0.1, 0.5], [(0.7, 1.3)] * 3)


def test_image_det_iter(tmp_path):
    writer = recordio.MXRecordIO(str(tmp_path / "a.rec"), "w")
    for i in range(5):
        boxes = [[j, 0.1, 0.1, 0.5, 0.5 + 0.1 * j] for j in range(1 + i % 3)]
        label = [4, 5, 100, 100] + [v for box in boxes for v in box]
        writer.write(recordio.pack((0, label, i, 0), png(np.full((20, 20, 3), 10 * i, dtype="uint8"))))
    writer.close()
    it = image.ImageDetIter(2, (3, 8, 8), path_imgrec=str(tmp_path / "a.rec"))
    assert it.provide_label == [("label", (2, 3, 5))] and it.provide_data == [("data", (2, 3, 8, 8))]
    batches = list(it)
    assert [b.pad for b in batches] == [0, 0, 1]
    label = batches[0].label[0].asnumpy()
    assert label.shape == (2, 3, 5) and label[0, 1:].max() == -1 and np.allclose(label[1, 1], [1, 0.1, 0.1, 0.5, 0.6])
    assert batches[0].data[0].asnumpy()[1, 0, 0, 0] == 10
    it.reshape(label_shape=(6, 5))
    it.reset()
    assert it.next().label[0].shape == (2, 6, 5)
    with pytest.raises(ValueError):
        it.reshape(label_shape=(1, 5))
    other = image.ImageDetIter(2, (3, 8, 8), path_imgrec=str(tmp_path / "a.rec"))
    it.sync_label_shape(other)
    assert other.label_shape == (6, 5)
    it.reset()
    drawn = next(it.draw_next(color=(255, 0, 0), thickness=1))
    assert drawn.dtype == np.uint8 and drawn[1, 1:4].tolist() == [[255, 0, 0]] * 3 and drawn[2, 2].tolist() == [0, 0, 0]
