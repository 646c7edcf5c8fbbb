"""HDF5 files of h5py: types, layouts, groups of both forms.  SPDX-License-Identifier: Apache-2.0"""
import numpy as np
import pytest

from mxnet import nd

h5py = pytest.importorskip("h5py")


@pytest.mark.parametrize("libver", [None, "v108", "latest"])
def test_hdf5(libver, tmp_path):
    """Types, layouts and groups as h5py writes them."""
    random, path, wanted = np.random.RandomState(5), str(tmp_path / "a.h5"), {}
    with h5py.File(path, "w", libver=libver) as file:
        for kind in "f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8 >f4 >i2".split():
            wanted["types/" + kind.replace(">", "big_")] = (random.rand(3, 4) * 50).astype(kind)
        wanted.update({f"many/array_{i}": np.array(i, "i4") for i in range(300)})
        wanted.update({"empty": np.zeros((0, 3), "f4"), "a/b/c": np.arange(5.)})
        for name, value in wanted.items():
            file[name] = value
        file["text"] = "left out"
        chunks = {"one": ((20, 3), (20, 3))}
        if libver != "latest":
            chunks.update({"some": ((7, 9, 4), (3, 4, 2)), "lines": ((5000,), (10,))})
        for name, (shape, chunk) in chunks.items():
            wanted[name] = random.rand(*shape)
            file.create_dataset(name, data=wanted[name], chunks=chunk, compression="gzip", shuffle=True)
    found = nd.load(path)
    assert sorted(found) == sorted(wanted)
    for name, value in wanted.items():
        assert (found[name].asnumpy() == value).all(), name
