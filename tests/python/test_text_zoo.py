"""Networks for texts from Python: names, continued texts, 16-bit types, files, exported graphs."""
import numpy as np
import pytest

import mxnet as mx
from mxnet import gluon, nd
from mxnet.gluon.model_zoo import text


def small(**kwargs):
    mx.random.seed(2)
    net = text.GPT2(**{**dict(num_layers=2, units=16, num_heads=2, vocab_size=20, max_length=12), **kwargs})
    net.initialize(mx.init.Normal(0.3))
    return net


def tokens(n, t, below=20):
    return nd.array(np.random.RandomState(1).randint(0, below, (n, t)))


@pytest.mark.parametrize("chunk", [1, 4])
def test_continued_text(chunk):
    net, x = small(), tokens(3, 10)
    whole = net(x).asnumpy()
    net.hybridize()
    cache = net.begin_cache(batch_size=3, length=11)
    assert len(cache) == 4 and cache[0].shape == (6, 11, 8)
    at = 0
    while at < 10:
        following = at + (1 if at else chunk)
        scores, *cache = net(x[:, at:following], nd.full((3,), at), *cache)
        np.testing.assert_allclose(scores.asnumpy(), whole[:, following - 1], rtol=1e-4, atol=1e-5)
        at = following


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sixteen_bits(dtype):
    """Positions stay exact: beyond 256 a bfloat16 has no odd integers."""
    net, x = small(max_length=300), tokens(1, 290)
    net.cast(dtype)
    whole = net(x)[0, -1].astype("float32").asnumpy()
    scores, *cache = net(x[:, :289], nd.zeros(1), *net.begin_cache(1, 300))
    scores, *cache = net(x[:, 289:], nd.full((1,), 289), *cache)
    assert scores.dtype == net.word.weight.data().dtype
    tolerance = 0.02 if dtype == "float16" else 0.15
    np.testing.assert_allclose(scores[0].astype("float32").asnumpy(), whole, atol=tolerance * abs(whole).max())


def test_files(tmp_path):
    net, x = small(), tokens(2, 5)
    net.save_parameters(str(tmp_path / "net.params"))
    other = small(prefix="another_")
    other.initialize(mx.init.Zero(), force_reinit=True)
    other.load_parameters(str(tmp_path / "net.params"))
    assert (other(x) == net(x)).asnumpy().all()
    names = list(net._collect_params_with_prefix())
    assert names[:3] == ["word.weight", "position.weight", "cell0.norm_1.gamma"] and len(names) == 2 + 2 * 16 + 2
    net.hybridize()
    net(x)
    net.export(str(tmp_path / "net"))
    imported = gluon.SymbolBlock.imports(str(tmp_path / "net-symbol.json"), ["data"], str(tmp_path / "net-0000.params"))
    np.testing.assert_allclose(imported(x).asnumpy(), net(x).asnumpy(), rtol=1e-5, atol=1e-6)


def test_names():
    assert isinstance(text.get_model("GPT2_124M", num_layers=1, units=8, num_heads=2), text.GPT2)
    assert text.gpt2_355m.__doc__.startswith("GPT2(num_layers=24, units=1024")
    with pytest.raises(ValueError, match="gpt2_1558m"):
        text.get_model("gpt3")
    with pytest.raises(ValueError, match="max_length=12"):
        small()(tokens(1, 13))
