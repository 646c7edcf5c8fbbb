"""gluon.data.vision: data sets from files, transforms on single images and batches."""
import gzip
import os
import struct

import numpy as np
import pytest

import mxnet as mx
from mxnet import gluon, nd, recordio
from mxnet.gluon.data import DataLoader, vision
from mxnet.gluon.data.vision import transforms

DEBIAN = "/usr/share/datasets/fashion-mnist"


def write_idx(path, array, packed=True):
    data = struct.pack(">HBB", 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()
    path.write_bytes(gzip.compress(data) if packed else data)


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home folder without data sets."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("MXNET_HOME", raising=False)
    return tmp_path


@pytest.fixture
def digits(tmp_path):
    images = np.random.randint(0, 256, (6, 28, 28)).astype("uint8")
    for part in ("train", "t10k"):
        write_idx(tmp_path / f"{part}-images-idx3-ubyte.gz", images)
        write_idx(tmp_path / f"{part}-labels-idx1-ubyte", np.arange(6).astype("uint8"), packed=False)
    return str(tmp_path), images


# ---- data sets -----------------------------------------------------------------------------------------------------

@pytest.mark.skipif(not os.path.isdir(DEBIAN), reason="needs the package dataset-fashion-mnist")
def test_fashion_mnist(home):
    test = vision.FashionMNIST(train=False)
    assert len(test) == 10000 and test._data.shape == (10000, 28, 28, 1) and test._data.dtype == np.uint8
    assert isinstance(test._label, np.ndarray) and test._label.dtype == np.int32
    with gzip.open(f"{DEBIAN}/t10k-images-idx3-ubyte.gz") as file:
        raw = np.frombuffer(file.read(), dtype="uint8", offset=16).reshape(-1, 28, 28, 1)
    assert np.array_equal(test._data.asnumpy(), raw)
    image, label = test[7]
    assert isinstance(image, nd.NDArray) and image.shape == (28, 28, 1) and isinstance(label, np.int32)
    assert test._label[:5].tolist() == [9, 2, 1, 1, 6]
    elsewhere = vision.FashionMNIST(root=str(home / "nowhere"), train=False)
    assert len(elsewhere) == 10000, "a root without the files falls back to the system's"
    data, label = next(iter(DataLoader(test.transform_first(transforms.ToTensor()), 100)))
    assert data.shape == (100, 1, 28, 28) and data.dtype == np.float32 and label.dtype == np.int32
    assert np.allclose(data.asnumpy()[:, 0], raw[:100, :, :, 0] / 255.0, atol=1e-6)


def test_mnist_from_files(digits, home):
    root, images = digits
    for train in (True, False):
        dataset = vision.MNIST(root=root, train=train)
        assert len(dataset) == 6 and np.array_equal(dataset[2][0].asnumpy()[:, :, 0], images[2]) and dataset[2][1] == 2
    changed = vision.MNIST(root, transform=lambda data, label: (data.astype("float32") / 255, label * 2))
    assert changed[3][1] == 6 and changed[3][0].dtype == np.float32
    assert next(iter(DataLoader(changed, 6)))[1].asnumpy().tolist() == [0, 2, 4, 6, 8, 10]
    with pytest.raises(mx.MXNetError, match="nowhere.*put the four idx files"):
        vision.MNIST(root=str(home / "nowhere"))
    with open(os.path.join(root, "t10k-labels-idx1-ubyte"), "wb") as file:
        file.write(b"damaged")
    with pytest.raises(mx.MXNetError):
        vision.MNIST(root, train=False)


def test_cifar(tmp_path, home):
    pixels = np.random.randint(0, 256, (4, 3, 32, 32)).astype("uint8")
    rows = np.concatenate([np.arange(4, dtype="uint8")[:, None], pixels.reshape(4, -1)], axis=1)
    for i in range(1, 6):
        (tmp_path / f"data_batch_{i}.bin").write_bytes(rows.tobytes())
    (tmp_path / "test_batch.bin").write_bytes(rows.tobytes())
    train, test = vision.CIFAR10(str(tmp_path)), vision.CIFAR10(str(tmp_path), train=False)
    assert len(train) == 20 and len(test) == 4 and train._label.dtype == np.int32
    assert np.array_equal(test[3][0].asnumpy(), pixels[3].transpose(1, 2, 0)) and test[3][1] == 3
    fine = np.concatenate([np.array([[1, 50]] * 4, dtype="uint8"), pixels.reshape(4, -1)], axis=1)
    (tmp_path / "train.bin").write_bytes(fine.tobytes())
    assert vision.CIFAR100(str(tmp_path))[0][1] == 1
    assert vision.CIFAR100(str(tmp_path), fine_label=True)[0][1] == 50
    with pytest.raises(mx.MXNetError, match="test.bin.*unpack"):
        vision.CIFAR100(str(tmp_path), train=False)
    with pytest.raises(mx.MXNetError, match="cifar.html"):
        vision.CIFAR10(str(tmp_path / "nowhere"))


def encoded(value, fmt=".png", shape=(6, 7)):
    pixels = np.full(shape + (3,), value, dtype="uint8")
    pixels[:, :, 2] = 255  # red: pack_img takes blue, green, red
    return recordio.unpack(recordio.pack_img((0, 0.0, 0, 0), pixels, 3 if fmt == ".png" else 95, fmt))[1]


def test_image_folder(tmp_path):
    for folder, values in (("dog", [10, 20]), ("cat", [30])):
        (tmp_path / folder).mkdir()
        for value in values:
            (tmp_path / folder / f"{value}.png").write_bytes(encoded(value))
    (tmp_path / "cat" / "notes.txt").write_text("not an image")
    (tmp_path / "readme").write_text("not a folder")
    with pytest.warns(UserWarning) as warned:
        dataset = vision.ImageFolderDataset(str(tmp_path))
    assert sorted("notes.txt" in str(w.message) for w in warned) == [False, True]
    assert dataset.synsets == ["cat", "dog"] and len(dataset) == 3
    found = [(os.path.basename(path), label) for path, label in dataset.items]
    assert found == [("30.png", 0), ("10.png", 1), ("20.png", 1)]
    image, label = dataset[1]
    assert image.asnumpy()[0, 0].tolist() == [255, 10, 10] and label == 1 and image.shape == (6, 7, 3)
    with pytest.warns(UserWarning):
        gray = vision.ImageFolderDataset(str(tmp_path), flag=0, transform=lambda data, label: (data.shape, label))
    assert gray[0] == ((6, 7, 1), 0)
    for workers in ({}, {"num_workers": 2}, {"num_workers": 2, "thread_pool": True}):
        batch = next(iter(DataLoader(dataset, 3, **workers)))
        assert batch[0].asnumpy()[:, 0, 0, 1].tolist() == [30, 10, 20] and batch[1].asnumpy().tolist() == [0, 1, 1]
    with pytest.raises(FileNotFoundError, match="nowhere"):
        vision.ImageFolderDataset(str(tmp_path / "nowhere"))


def test_image_folders_are_scanned_as_python_lists_them(tmp_path):
    """Names that start with a dot count, so do suffixes in any case and links to folders."""
    for folder in ("b", ".a", "B", "\u00e4"):
        (tmp_path / folder).mkdir()
        for name in ("x.JPG", ".y.png", ".jpeg", "z.jpeg.txt", "w"):
            (tmp_path / folder / name).write_bytes(b"")
    (tmp_path / "c").symlink_to(tmp_path / "b")
    with pytest.warns(UserWarning) as warned:
        dataset = vision.ImageFolderDataset(str(tmp_path) + "/")
    assert dataset.synsets == sorted(os.listdir(tmp_path)) == [".a", "B", "b", "c", "\u00e4"]
    assert dataset.items == [(f"{tmp_path}/{folder}/{name}", i) for i, folder in enumerate(dataset.synsets)
                             for name in (".y.png", "x.JPG")]
    assert len(warned) == 15


def test_image_list(tmp_path):
    for value in (1, 2):
        (tmp_path / f"{value}.jpg").write_bytes(encoded(value, ".jpg"))
    (tmp_path / "a.lst").write_text("0\t5\t1.jpg\n1\t6\t2.jpg\n")
    listed = vision.ImageListDataset(str(tmp_path), "a.lst")
    assert len(listed) == 2 and listed[1][1] == 6 and listed[1][0].shape == (6, 7, 3)
    given = vision.ImageListDataset(str(tmp_path), [[3, "1.jpg"], [[4, 5], "2.jpg"]], flag=0)
    assert given[0][1] == 3 and given[1][1].tolist() == [4, 5] and given[0][0].shape == (6, 7, 1)
    with pytest.raises(ValueError):
        vision.ImageListDataset(str(tmp_path), None)


def test_image_records(tmp_path):
    path = str(tmp_path / "a.rec")
    writer = recordio.MXIndexedRecordIO(str(tmp_path / "a.idx"), path, "w")
    for i in range(6):
        writer.write_idx(i, recordio.pack((0, float(i) if i else [7, 8], i, 0), encoded(i)))
    writer.close()
    dataset = vision.ImageRecordDataset(path)
    assert len(dataset) == 6
    image, label = dataset[4]
    assert image.asnumpy()[0, 0].tolist() == [255, 4, 4] and label == 4.0
    assert dataset[0][1].tolist() == [7, 8]
    changed = vision.ImageRecordDataset(path, flag=0, transform=lambda data, label: (data.shape, label))
    assert changed[3] == ((6, 7, 1), 3.0)
    tail = gluon.data.SimpleDataset(range(1, 6)).transform(lambda i: dataset[i])
    for workers in (0, 2):
        labels = [y.asnumpy().tolist() for _, y in DataLoader(tail, 2, num_workers=workers)]
        assert labels == [[1, 2], [3, 4], [5]]
    raw = gluon.data.RecordFileDataset(path)
    assert len(raw) == 6 and recordio.unpack(raw[2])[0].label == 2
    os.remove(tmp_path / "a.idx")
    with pytest.raises(FileNotFoundError, match="a.idx"):
        vision.ImageRecordDataset(path)


def test_threads_share_a_record_file(tmp_path):
    path = str(tmp_path / "a.rec")
    writer = recordio.MXIndexedRecordIO(str(tmp_path / "a.idx"), path, "w")
    for i in range(120):
        writer.write_idx(i, recordio.pack((0, float(i), i, 0), encoded(i)))
    writer.close()
    dataset = vision.ImageRecordDataset(path).transform_first(transforms.RandomFlipLeftRight())
    for options in ({}, {"thread_pool": True}):
        seen = []
        for data, label in DataLoader(dataset, 8, shuffle=True, num_workers=4, **options):
            assert np.array_equal(data.asnumpy()[:, 0, 0, 1], label.asnumpy())
            seen += label.asnumpy().tolist()
        assert sorted(seen) == list(range(120))


# ---- transforms ----------------------------------------------------------------------------------------------------

@pytest.fixture
def pixels():
    return np.random.RandomState(0).randint(0, 256, (20, 30, 3)).astype("uint8")


def test_where_transforms_live():
    for name in ("ToTensor", "Normalize", "Cast", "Resize", "RandomFlipLeftRight", "Rotate"):
        assert hasattr(transforms, name) and not hasattr(gluon.nn, name)
        assert getattr(transforms, name).__module__ == "mxnet.gluon.data.vision.transforms"
    assert issubclass(transforms.ToTensor, gluon.HybridBlock) and issubclass(transforms.Resize, gluon.HybridBlock)
    assert not issubclass(transforms.RandomResizedCrop, gluon.HybridBlock), "it draws numbers itself"
    assert issubclass(transforms.Compose, gluon.nn.Sequential)
    assert "interpolation" in transforms.Resize.__doc__


def test_fixed_transforms(pixels):
    x = nd.array(pixels, dtype="uint8")
    tensor = transforms.ToTensor()(x)
    assert tensor.dtype == np.float32 and np.allclose(tensor.asnumpy(), pixels.transpose(2, 0, 1) / 255.0, atol=1e-6)
    normalized = transforms.Normalize((0.1, 0.2, 0.3), (0.5, 0.6, 0.7))(tensor).asnumpy()
    wanted = (pixels / 255.0 - [0.1, 0.2, 0.3]) / [0.5, 0.6, 0.7]
    assert np.allclose(normalized, wanted.transpose(2, 0, 1), atol=1e-5)
    assert transforms.Cast("float16")(x).dtype == np.float16
    assert transforms.Resize(12)(x).shape == (12, 12, 3) and transforms.Resize((12, 7))(x).shape == (7, 12, 3)
    assert transforms.Resize(10, keep_ratio=True)(x).shape == (10, 15, 3)
    assert np.array_equal(transforms.Resize((60, 40), interpolation=0)(x).asnumpy(), pixels.repeat(2, 0).repeat(2, 1))
    assert np.array_equal(transforms.CenterCrop((10, 8))(x).asnumpy(), pixels[6:14, 10:20])
    assert transforms.CenterCrop(40)(x).shape == (40, 40, 3)
    assert np.array_equal(transforms.CropResize(2, 3, 10, 8)(x).asnumpy(), pixels[3:11, 2:12])
    assert transforms.CropResize(2, 3, 10, 8, (5, 4))(x).shape == (4, 5, 3)
    turned = transforms.Rotate(180)(tensor).asnumpy()
    assert np.allclose(turned, pixels.transpose(2, 0, 1)[:, ::-1, ::-1] / 255.0, atol=1e-3)


def test_batches(pixels):
    batch = nd.array([pixels, 255 - pixels], dtype="uint8")
    composed = transforms.Compose([transforms.Resize(12), transforms.ToTensor(), transforms.Normalize(0.5, 0.2)])
    for transform in (transforms.ToTensor(), transforms.Resize((12, 7)), transforms.CenterCrop(10), composed,
                      transforms.Cast("float32"), transforms.CropResize(2, 3, 10, 8), transforms.RandomBrightness(0),
                      transforms.RandomLighting(0)):
        whole = transform(batch).asnumpy()
        for i in range(2):
            assert np.allclose(whole[i], transform(batch[i]).asnumpy(), atol=1e-5), transform


def test_flips(pixels):
    x = nd.array(pixels, dtype="uint8")
    for flip, other in ((transforms.RandomFlipLeftRight(), pixels[:, ::-1]),
                        (transforms.RandomFlipTopBottom(), pixels[::-1])):
        seen = [np.array_equal(flip(x).asnumpy(), other) for _ in range(40)]
        assert 5 < sum(seen) < 35
        batch = flip(nd.array([pixels] * 40, dtype="uint8")).asnumpy()
        flipped = [np.array_equal(image, other) for image in batch]
        assert 5 < sum(flipped) < 35, "every image of a batch by itself"
        assert all(np.array_equal(image, other if f else pixels) for image, f in zip(batch, flipped))


def test_random_crops(pixels):
    position = np.dstack(np.broadcast_arrays(np.arange(30), np.arange(20)[:, None], 0))
    x = nd.array(position, dtype="uint8")
    corners = set()
    for _ in range(30):
        crop = transforms.RandomCrop((9, 7))(x).asnumpy()
        x0, y0 = crop[0, 0, :2]
        assert crop.shape == (7, 9, 3) and np.array_equal(crop, position[y0:y0 + 7, x0:x0 + 9])
        corners.add((x0, y0))
        assert transforms.RandomResizedCrop((9, 7), scale=(0.3, 0.6), ratio=(0.5, 2.0))(x).shape == (7, 9, 3)
    assert len(corners) > 10
    padded = transforms.RandomCrop((38, 28), pad=4, pad_value=9)(x).asnumpy()
    assert padded.shape == (28, 38, 3) and padded[0, 0].tolist() == [9, 9, 9]
    assert np.array_equal(padded[4:24, 4:34], position)
    mx.random.seed(5)
    first = transforms.RandomCrop(5)(x).asnumpy()
    mx.random.seed(5)
    assert np.array_equal(transforms.RandomCrop(5)(x).asnumpy(), first)


def test_colours(pixels):
    x = nd.array(pixels).astype("float32")
    factors = set()
    for _ in range(10):
        ratio = transforms.RandomBrightness(0.5)(x).asnumpy() / np.maximum(pixels, 1e-3)
        ratio = ratio[pixels > 0]
        assert np.allclose(ratio, ratio[0], atol=1e-3) and 0.5 <= ratio[0] <= 1.5
        factors.add(round(float(ratio[0]), 3))
    assert len(factors) > 5
    for transform in (transforms.RandomContrast(0.5), transforms.RandomSaturation(0.5), transforms.RandomHue(0.3),
                      transforms.RandomColorJitter(0.3, 0.3, 0.3, 0.3), transforms.RandomLighting(0.5)):
        out = transform(x)
        assert out.shape == x.shape and not np.allclose(out.asnumpy(), pixels, atol=1e-2), transform
    gray = transforms.RandomGray(1.0)(x).asnumpy()
    assert np.allclose(gray, (pixels @ [0.299, 0.587, 0.114])[:, :, None], atol=0.1)
    assert np.array_equal(transforms.RandomGray(0.0)(x).asnumpy(), pixels)
    shifted = transforms.RandomLighting(0.5)(x).asnumpy() - pixels
    assert np.allclose(shifted, shifted[0, 0], atol=1e-3)


def test_rotations():
    x = nd.array(np.random.rand(3, 9, 9))
    assert not np.allclose(transforms.RandomRotation((20, 40))(x).asnumpy(), x.asnumpy(), atol=1e-2)
    still = transforms.RandomRotation((20, 40), rotate_with_proba=0.0)
    assert np.array_equal(still(x).asnumpy(), x.asnumpy())
    with pytest.raises(ValueError):
        transforms.RandomRotation((5, -5))
    with pytest.raises(TypeError):
        transforms.Rotate(30)(x.astype("uint8"))


def test_containers(pixels):
    x = nd.array(pixels, dtype="uint8")
    composed = transforms.Compose([transforms.Resize(8), gluon.nn.Lambda(lambda data: data + 1), transforms.ToTensor()])
    assert composed(x).shape == (3, 8, 8) and len(composed) == 3
    hybrid = transforms.HybridCompose([transforms.Resize(8), transforms.ToTensor()])
    for _ in range(2):
        assert np.array_equal(hybrid(x).asnumpy(), transforms.ToTensor()(transforms.Resize(8)(x)).asnumpy())
    for p, wanted in ((1.0, True), (0.0, False)):
        for container in (transforms.RandomApply, transforms.HybridRandomApply):
            changed = container(gluon.nn.HybridLambda(lambda F, data: data + 1), p=p)(nd.zeros((4, 4, 3))).asnumpy()
            assert (changed == wanted).all(), container
    assert transforms.RandomApply([transforms.Resize(8), transforms.ToTensor()], p=1.0)(x).shape == (3, 8, 8)
    for error, action in ((TypeError, lambda: transforms.Compose([lambda data: data])),
                          (ValueError, lambda: transforms.HybridCompose([transforms.RandomCrop(3)])),
                          (ValueError, lambda: transforms.Resize((1, 2, 3))(x)),
                          (mx.MXNetError, lambda: transforms.ToTensor()(nd.zeros((3, 4)))),
                          (mx.MXNetError, lambda: transforms.CropResize(25, 3, 10, 8)(x))):
        with pytest.raises(error):
            action()


def test_random_transforms_stay_random_when_hybridized(pixels):
    net = transforms.HybridCompose([transforms.RandomFlipLeftRight(), transforms.RandomBrightness(0.5),
                                    transforms.ToTensor()])
    x = nd.array(pixels, dtype="uint8")
    assert len({float(net(x).sum().asscalar()) for _ in range(10)}) > 5


def test_a_transform_of_ones_own(pixels):
    class Plus(gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            return x + 1

    class Louder(transforms.ToTensor):
        def forward(self, x):
            return super().forward(x) * 2

    x = nd.array(pixels, dtype="uint8")
    dataset = gluon.data.ArrayDataset(nd.array([pixels] * 4, dtype="uint8"), np.arange(4))
    chain = transforms.Compose([Louder(), Plus()])
    wanted = pixels.transpose(2, 0, 1) / 255.0 * 2 + 1
    assert np.allclose(chain(x).asnumpy(), wanted, atol=1e-5)
    for workers in (0, 1) if x.context.device_type != "gpu" else (0,):  # forked processes have no GPU
        batch = next(iter(DataLoader(dataset.transform_first(chain), 4, num_workers=workers)))[0]
        assert np.allclose(batch.asnumpy()[3], wanted, atol=1e-5)


@pytest.mark.parametrize("name, args, said", [
    ("Resize", (-5,), "size holds -5"), ("Resize", ((1, 2, 3),), "3 numbers"), ("CenterCrop", ((4, 0),), "size holds 0"),
    ("CropResize", (0, 0, -1, 4), "width=-1"), ("CropResize", (-1, 0, 2, 2), "x=-1"),
    ("CropResize", (0, 0, 4, 4, (1, 2, 3)), "3 numbers"), ("RandomResizedCrop", (-3,), "size holds -3"),
    ("RandomCrop", (-3,), "size holds -3")])
def test_wrong_sizes_are_errors_when_used(name, args, said):
    made = getattr(transforms, name)(*args)
    with pytest.raises(mx.MXNetError, match=said):
        made(nd.ones((10, 12, 3), dtype="uint8"))


def test_the_sign_of_a_jitter_says_nothing():
    x = nd.full((4, 4, 3), 0.5)
    for change in (transforms.RandomBrightness, transforms.RandomContrast, transforms.RandomSaturation, transforms.RandomHue):
        mx.random.seed(5)
        wanted = change(0.5)(x).asnumpy()
        mx.random.seed(5)
        np.testing.assert_array_equal(change(-0.5)(x).asnumpy(), wanted)
    assert transforms.RandomColorJitter(-0.1, -0.1, -0.1, -0.1)(x).shape == x.shape
