"""contrib.text: vocabularies and embeddings; contrib.io, contrib.autograd, and unsupported parts."""
import collections

import numpy as np
import pytest

import mxnet as mx
from mxnet import gluon, nd
from mxnet.contrib import text


def test_counting():
    counter = text.utils.count_tokens_from_str(" Life is great ! \n life is good . \n", to_lower=True)
    assert counter == {"life": 2, "is": 2, "great": 1, "!": 1, "good": 1, ".": 1}
    again = text.utils.count_tokens_from_str("is*is", token_delim=r"\*", counter_to_update=counter)
    assert again is counter and counter["is"] == 4


def test_vocabulary():
    counter = collections.Counter(["b", "c", "c", "a", "a", "some_word$", "c"])
    words = text.vocab.Vocabulary(counter, reserved_tokens=["<pad>"])
    assert words.idx_to_token == ["<unk>", "<pad>", "c", "a", "b", "some_word$"] and len(words) == 6
    assert words.to_indices("a") == 3 and words.to_indices(["c", "nothing"]) == [2, 0]
    assert words.to_tokens([0, 5]) == ["<unk>", "some_word$"] and words.to_tokens(1) == "<pad>"
    assert words.unknown_token == "<unk>" and words.reserved_tokens == ["<pad>"] and words.token_to_idx["b"] == 4
    assert text.Vocabulary(counter, min_freq=2).idx_to_token == ["<unk>", "c", "a"]
    assert text.Vocabulary(counter, most_freq_count=1, unknown_token="?").idx_to_token == ["?", "c"]
    for bad in (6, -1, "a"):
        with pytest.raises(ValueError):
            words.to_tokens(bad)
    for kwargs in ({"min_freq": 0}, {"reserved_tokens": ["<unk>"]}, {"reserved_tokens": ["x", "x"]}):
        with pytest.raises(AssertionError):
            text.Vocabulary(counter, **kwargs)
    with pytest.raises(AssertionError):
        text.Vocabulary({"a": 1})


@pytest.fixture
def vectors(tmp_path):
    path = tmp_path / "vectors.txt"
    path.write_text("a 0.1 0.2 0.3\nb 1 2 3\nc 4 5 6\n")
    return str(path)


def test_embedding_from_a_file(vectors, tmp_path):
    embedding = text.embedding.CustomEmbedding(vectors)
    assert embedding.vec_len == 3 and embedding.idx_to_token == ["<unk>", "a", "b", "c"]
    assert np.allclose(embedding.idx_to_vec.asnumpy(), [[0, 0, 0], [0.1, 0.2, 0.3], [1, 2, 3], [4, 5, 6]])
    assert np.allclose(embedding.get_vecs_by_tokens("b").asnumpy(), [1, 2, 3])
    assert np.allclose(embedding.get_vecs_by_tokens(["C", "a"], lower_case_backup=True).asnumpy(), [[4, 5, 6], [0.1,
                                                                                                                0.2,
                                                                                                                0.3]])
    assert (embedding.get_vecs_by_tokens("C").asnumpy() == 0).all()
    embedding.update_token_vectors(["a", "c"], nd.array([[9, 9, 9], [8, 8, 8]]))
    assert np.allclose(embedding.get_vecs_by_tokens(["c", "a", "b"]).asnumpy(), [[8] * 3, [9] * 3, [1, 2, 3]])
    with pytest.raises(ValueError, match="nothing"):
        embedding.update_token_vectors("nothing", nd.ones((3,)))
    with pytest.raises(AssertionError):
        embedding.update_token_vectors("a", nd.ones((4,)))
    words = text.Vocabulary(collections.Counter(["b", "z"]))
    kept = text.embedding.CustomEmbedding(vectors, vocabulary=words, init_unknown_vec=nd.ones)
    assert kept.idx_to_token == ["<unk>", "b", "z"]
    assert np.allclose(kept.idx_to_vec.asnumpy(), [[1, 1, 1], [1, 2, 3], [1, 1, 1]])
    both = text.embedding.CompositeEmbedding(words, [kept, embedding])
    assert both.vec_len == 6 and np.allclose(both.get_vecs_by_tokens("b").asnumpy(), [1, 2, 3, 1, 2, 3])
    (tmp_path / "bad.txt").write_text("a 1 2\nb 1 2 3\n")
    with pytest.raises(AssertionError, match="line 2"):
        text.embedding.CustomEmbedding(str(tmp_path / "bad.txt"))
    with pytest.raises(OSError, match="nowhere"):
        text.embedding.CustomEmbedding(str(tmp_path / "nowhere.txt"))


def test_named_embeddings(tmp_path):
    assert "glove.6B.50d.txt" in text.embedding.get_pretrained_file_names("glove")
    assert set(text.embedding.get_pretrained_file_names()) == {"glove", "fasttext"}
    with pytest.raises(KeyError):
        text.embedding.create("glove", pretrained_file_name="other.txt")
    with pytest.raises(OSError, match="glove.6B.50d.txt"):
        text.embedding.create("glove", pretrained_file_name="glove.6B.50d.txt", embedding_root=str(tmp_path))
    (tmp_path / "fasttext").mkdir()
    (tmp_path / "fasttext" / "wiki.simple.vec").write_text("2 3\nhello 1 2 3\nworld 3 2 1\n")
    found = text.embedding.create("fasttext", embedding_root=str(tmp_path))
    assert found.idx_to_token == ["<unk>", "hello", "world"] and found.vec_len == 3


def test_wikitext(tmp_path):
    (tmp_path / "wiki.train.tokens").write_text("\n the cat sat \n\n the dog sat down \n")
    data = gluon.contrib.data.text.WikiText2(str(tmp_path), seq_len=4)
    words = data.vocabulary
    assert len(data) == 2 and data.frequencies["sat"] == 2 and words.idx_to_token[:2] == ["<unk>", "<eos>"]
    x, y = data[0]
    assert words.to_tokens(x.asnumpy().tolist()) == ["the", "cat", "sat", "<eos>"]
    assert words.to_tokens(y.asnumpy().tolist()) == ["cat", "sat", "<eos>", "the"]
    with pytest.raises(OSError, match="wiki.test.tokens"):
        gluon.contrib.data.text.WikiText2(str(tmp_path), segment="test")
    with pytest.raises(KeyError):
        gluon.contrib.data.text.WikiText103(str(tmp_path), segment="other")


def test_interval_sampler():
    sampler = gluon.contrib.data.IntervalSampler
    assert list(sampler(7, 3)) == [0, 3, 6, 1, 4, 2, 5] and len(sampler(7, 3)) == 7
    assert list(sampler(7, 3, rollover=False)) == [0, 3, 6] and len(sampler(7, 3, rollover=False)) == 7
    with pytest.raises(AssertionError):
        sampler(2, 3)


def test_a_loader_as_an_iterator():
    data = gluon.data.ArrayDataset(np.arange(10, dtype="float32").reshape(5, 2), np.arange(5, dtype="float32"))
    source = mx.contrib.io.DataLoaderIter(gluon.data.DataLoader(data, 2))
    assert source.provide_data[0].shape == (2, 2) and source.provide_label[0].name == "softmax_label"
    for _ in range(2):
        batches = list(source)
        assert len(batches) == 3 and [b.pad for b in batches] == [0, 0, 1]
        assert batches[2].data[0].asnumpy().tolist() == [[8, 9], [0, 0]]
        source.reset()
    net = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=5), name="softmax")
    mx.mod.Module(net).fit(source, num_epoch=1)


def test_old_autograd():
    x = nd.array([1.0, 2.0, 3.0])
    grads, loss = mx.contrib.autograd.grad_and_loss(lambda a: a * a)(x)
    assert np.allclose(grads[0].asnumpy(), [2, 4, 6]) and np.allclose(loss.asnumpy(), [1, 4, 9])
    assert np.allclose(mx.contrib.autograd.grad(lambda a, b: a * b, argnum=1)(x, x * 2)[0].asnumpy(), [1, 2, 3])
    y = nd.array([2.0])
    dy = nd.zeros((1,))
    mx.contrib.autograd.mark_variables([y], [dy])
    with mx.contrib.autograd.train_section():
        z = y * 3
        with mx.contrib.autograd.test_section():
            y * 5
    mx.contrib.autograd.compute_gradient([z])
    assert dy.asscalar() == 3


@pytest.mark.parametrize("call", [
    lambda: mx.contrib.quantization.quantize_net_v2(1), lambda: mx.rtc.CudaModule("x"), lambda: mx.th.abs(1),
    lambda: mx.kv.create("local").set_gradient_compression({"type": "2bit"})])
def test_what_is_not_here_says_so(call):
    with pytest.raises(mx.error.UnsupportedError, match=r": \w+ "):
        call()


def test_two_bit_compression():
    store = mx.kv.create("device")
    store.set_gradient_compression({"type": "2bit", "threshold": 0.5})
    store.init("w", nd.zeros((4,)))
    grads = [nd.array([0.3, 0.6, -0.7, 0.0]), nd.array([0.3, 2.0, 0.1, 0.0])]
    out = nd.zeros((4,))
    store.pushpull("w", grads, out=out)
    assert np.allclose(out.asnumpy(), [0, 1, -0.5, 0])
    store.pushpull("w", grads, out=out)  # what was lost comes now
    assert np.allclose(out.asnumpy(), [1, 1, -0.5, 0])
    for bad in ({}, {"type": "4bit"}, {"type": "2bit", "threshold": 0}, {"type": "2bit", "level": 1}):
        with pytest.raises(ValueError):
            store.set_gradient_compression(bad)
    net = gluon.nn.Dense(1, in_units=1)
    net.initialize()
    gluon.Trainer(net.collect_params(), "sgd", compression_params={"type": "2bit", "threshold": 0.5})
    with pytest.raises(ValueError):
        gluon.Trainer(net.collect_params(), "sgd", compression_params={"type": "3bit"})


def test_loggers(tmp_path):
    logger = mx.log.get_logger("test_loggers", str(tmp_path / "log"), "w", mx.log.INFO)
    logger.info("50%% of %s", "it")
    line = (tmp_path / "log").read_text()
    assert line.startswith("I") and line.endswith("] 50% of it\n") and mx.log.getLogger("test_loggers") is logger


def test_a_network_as_two_files(tmp_path):
    def made():
        net = gluon.nn.HybridSequential()
        net.add(gluon.nn.Dense(3, in_units=2), gluon.nn.Dense(2, in_units=3))
        return net
    net = made()
    net.initialize()
    net.hybridize()
    net.save(str(tmp_path / "n"))
    other = made()
    other.load(str(tmp_path / "n"))
    x = nd.ones((1, 2))
    assert np.array_equal(net(x).asnumpy(), other(x).asnumpy())
    with pytest.raises(ValueError, match="children"):
        gluon.nn.HybridSequential().load(str(tmp_path / "n"))
