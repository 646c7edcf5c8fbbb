"""Files of arrays by what they are: read by their contents, written by their suffix."""
import numpy as np
import pytest

import mxnet as mx
from mxnet import gluon, nd
from mxnet.gluon import nn

NAMED = ["params", "safetensors", "npz"]


def sample():
    return {"w": nd.arange(6).reshape((2, 3)), "b": nd.array([1, 2], dtype="int32")}


def net():
    block = nn.HybridSequential(prefix="n_")
    with block.name_scope():
        block.add(nn.Dense(4, in_units=3), nn.BatchNorm(in_channels=4))
    block.initialize(mx.init.Normal(1))
    return block


@pytest.mark.parametrize("suffix", NAMED)
def test_round_trip(tmp_path, suffix):
    path = str(tmp_path / ("a." + suffix))
    nd.save(path, sample())
    (tmp_path / ("a." + suffix)).rename(tmp_path / "renamed.dat")  # the name says nothing any more
    loaded = nd.load(str(tmp_path / "renamed.dat"))
    assert sorted(loaded) == ["b", "w"] and loaded["b"].dtype == np.int32
    np.testing.assert_array_equal(loaded["w"].asnumpy(), sample()["w"].asnumpy())
    again = nd.load_frombuffer((tmp_path / "renamed.dat").read_bytes())
    np.testing.assert_array_equal(again["w"].asnumpy(), sample()["w"].asnumpy())
    nd.save(path, [nd.ones(2), nd.zeros(3)])
    assert [x.shape for x in nd.load(path)] == [(2,), (3,)]


def test_numpy_reads_and_writes_the_same_files(tmp_path):
    nd.save(str(tmp_path / "a.npz"), sample())
    with np.load(tmp_path / "a.npz") as file:
        np.testing.assert_array_equal(file["w"], np.arange(6).reshape(2, 3))
    np.savez_compressed(tmp_path / "b.npz", w=np.arange(3.0), v=np.ones((2, 2), "f4"))
    assert {k: v.shape for k, v in nd.load(str(tmp_path / "b.npz")).items()} == {"w": (3,), "v": (2, 2)}
    nd.save(str(tmp_path / "a.npy"), nd.arange(4))
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), np.arange(4))
    np.save(tmp_path / "b.npy", np.asfortranarray(np.arange(6).reshape(2, 3)))
    assert nd.load(str(tmp_path / "b.npy"))[0].asnumpy().tolist() == [[0, 1, 2], [3, 4, 5]]


def test_what_a_format_cannot_hold(tmp_path):
    with pytest.raises(ValueError, match="one array without a name.*got 2 arrays.*npz"):
        nd.save(str(tmp_path / "a.npy"), [nd.ones(1), nd.ones(1)])
    with pytest.raises(ValueError, match="with names"):
        nd.save(str(tmp_path / "a.npy"), {"w": nd.ones(1)})
    with pytest.raises(Exception, match="sparse|row_sparse"):
        nd.save(str(tmp_path / "a.npz"), {"w": nd.ones((2, 2)).tostype("row_sparse")})
    assert not list(tmp_path.iterdir())
    (tmp_path / "t.txt").write_text("this is only a text file")
    with pytest.raises(mx.MXNetError, match=r"t\.txt.*\.params, \.safetensors, \.npz, \.npy or HDF5"):
        nd.load(str(tmp_path / "t.txt"))


@pytest.mark.parametrize("suffix", NAMED)
def test_parameters(tmp_path, suffix):
    path, x = str(tmp_path / ("net." + suffix)), nd.ones((2, 3))
    first, second = net(), net()
    first.save_parameters(path)
    second.load_parameters(path)
    np.testing.assert_array_equal(first(x).asnumpy(), second(x).asnumpy())
    first.collect_params().save(path, strip_prefix="n_")
    second.initialize(force_reinit=True)
    second.collect_params().load(path, restore_prefix="n_")
    np.testing.assert_array_equal(first(x).asnumpy(), second(x).asnumpy())


@pytest.mark.parametrize("suffix", NAMED)
def test_imports(tmp_path, suffix):
    block, x = net(), nd.ones((2, 3))
    block.hybridize()
    wanted = block(x).asnumpy()
    block.export(str(tmp_path / "net"))
    params = str(tmp_path / ("weights." + suffix))
    nd.save(params, nd.load(str(tmp_path / "net-0000.params")))
    read = gluon.SymbolBlock.imports(str(tmp_path / "net-symbol.json"), ["data"], params)
    np.testing.assert_allclose(read(x).asnumpy(), wanted, rtol=1e-6)
    bare = {name.split(":")[-1]: value for name, value in nd.load(params).items()}
    nd.save(params, bare)  # as another program would write them
    read = gluon.SymbolBlock.imports(str(tmp_path / "net-symbol.json"), ["data"], params)
    np.testing.assert_allclose(read(x).asnumpy(), wanted, rtol=1e-6)


def test_axes_of_zero_are_written_as_mxnet_writes_them(tmp_path):
    path = tmp_path / "z.params"
    nd.save(str(path), {"a": nd.empty((2, 0))})
    assert path.read_bytes()[24:28] == bytes.fromhex("c9fa93f9")  # a record that MXNet 1.9.1 reads
    assert nd.load(str(path))["a"].shape == (2, 0)


def test_an_empty_open_file_is_written_in_place(tmp_path):
    with open(tmp_path / "open.params", "w+b") as file:
        nd.save(file.name, [nd.ones(3)])
        assert file.read() == (tmp_path / "open.params").read_bytes() != b""


def test_hdf5_is_recognised(tmp_path):
    """By its contents; a damaged file is an error that names the object."""
    path = tmp_path / "net.weights.h5"
    path.write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(40))
    with pytest.raises(mx.MXNetError, match="'/': the superblock .version 0. is damaged"):
        nd.load(str(path))
