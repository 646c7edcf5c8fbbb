"""d2l, the package of the book "Dive into Deep Learning" with MXNet's NumPy interface: its models and training loops for an
epoch on generated data."""
import math

import numpy as onp
import pytest

import mxnet as mx
from d2l import mxnet as d2l
from mxnet import autograd, gluon, init, np, npx
from mxnet.gluon import nn, rnn


@pytest.fixture(autouse=True)
def switched():
    npx.set_np()
    yield
    npx.reset_np()
    d2l.plt.close("all")


@pytest.fixture
def pictures():
    """Batches of pictures whose class is their brightness."""
    labels = onp.arange(60) % 4
    images = onp.random.rand(60, 1, 28, 28) * 0.2 + labels[:, None, None, None] * 0.3
    data = gluon.data.ArrayDataset(np.array(images.astype("float32")), np.array(labels.astype("float32")))
    return gluon.data.DataLoader(data, 10, shuffle=True)


class Words(d2l.Vocab):
    """The vocabulary of a small text."""

    def __init__(self, text="time traveller for so it will be convenient to speak of him"):
        super().__init__(list(text), reserved_tokens=["<pad>", "<bos>", "<eos>"])
        self.corpus = [self[c] for c in text * 8]


def sequences(words, batch_size=4, num_steps=6):
    return list(d2l.seq_data_iter_sequential(words.corpus, batch_size, num_steps))


def test_linear_regression():
    true_w = np.array([2, -3.4])
    features, labels = d2l.synthetic_data(true_w, 4.2, 300)
    w, b = np.random.normal(0, 0.01, (2, 1)), np.zeros(1)
    w.attach_grad()
    b.attach_grad()
    for _ in range(8):
        for x, y in d2l.load_array((features, labels), 10):
            with autograd.record():
                loss = d2l.squared_loss(d2l.linreg(x, w, b), y)
            loss.backward()
            d2l.sgd([w, b], 0.03, 10)
    assert onp.allclose(w.asnumpy().ravel(), [2, -3.4], atol=0.1) and abs(float(b[0]) - 4.2) < 0.1
    assert d2l.evaluate_loss(lambda x: d2l.linreg(x, w, b), d2l.load_array((features, labels), 10), d2l.squared_loss) < 0.01


@pytest.mark.parametrize("scratch", [False, True])
def test_train_ch3(pictures, scratch):
    if scratch:
        w, b = np.random.normal(0, 0.01, (784, 4)), np.zeros(4)
        w.attach_grad()
        b.attach_grad()

        def net(x):
            e = np.exp(np.dot(x.reshape((-1, 784)), w) + b)
            return e / e.sum(1, keepdims=True)

        def loss(y_hat, y):
            return -np.log(y_hat[range(len(y_hat)), y])
        d2l.train_epoch_ch3(net, pictures, loss, lambda batch_size: d2l.sgd([w, b], 0.1, batch_size))
        d2l.predict_ch3(net, pictures, n=2)
    else:
        net = nn.Sequential()
        net.add(nn.Dense(16, activation="relu"), nn.Dense(4))
        net.initialize(init.Xavier())
        trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.01})
        for _ in range(25):
            d2l.train_epoch_ch3(net, pictures, gluon.loss.SoftmaxCrossEntropyLoss(), trainer)
        assert d2l.evaluate_accuracy(net, pictures) > 0.5


@pytest.mark.parametrize("kind", ["LeNet", "residual", "dense"])
def test_train_ch6(pictures, kind, capsys):
    net = nn.Sequential()
    if kind == "LeNet":
        net.add(nn.Conv2D(6, kernel_size=5, padding=2, activation="sigmoid"), nn.AvgPool2D(2, 2),
                nn.Conv2D(16, kernel_size=5, activation="sigmoid"), nn.AvgPool2D(2, 2), nn.Dense(20, activation="sigmoid"), nn.Dense(4))
    elif kind == "residual":
        net.add(nn.Conv2D(4, 3, 2), nn.BatchNorm(), nn.Activation("relu"), d2l.Residual(4), d2l.Residual(8, True, 2),
                nn.GlobalAvgPool2D(), nn.Dense(4))
    else:
        class Joined(nn.Block):
            def __init__(self):
                super().__init__()
                self.net = nn.Sequential()
                self.net.add(nn.Conv2D(2, 3, padding=1), nn.Conv2D(2, 3, padding=1))

            def forward(self, x):
                for block in self.net:
                    x = np.concatenate((x, block(x)), axis=1)
                return x
        net.add(Joined(), nn.GlobalAvgPool2D(), nn.Dense(4))
    d2l.train_ch6(net, pictures, pictures, 1, 0.1, d2l.try_gpu())
    assert "train acc" in capsys.readouterr().out


def test_train_ch8(capsys):
    words = Words()
    size, device = len(words), d2l.try_gpu()

    def parameters(vocab_size, hidden, ctx):
        made = [np.random.normal(scale=0.01, size=s, ctx=ctx) for s in ((vocab_size, hidden), (hidden, hidden), (hidden, vocab_size))]
        made += [np.zeros(hidden, ctx=ctx), np.zeros(vocab_size, ctx=ctx)]
        for x in made:
            x.attach_grad()
        return made

    def run(inputs, state, params):
        w_x, w_h, w_q, b_h, b_q = params
        (h,), outputs = state, []
        for x in inputs:
            h = np.tanh(np.dot(x, w_x) + np.dot(h, w_h) + b_h)
            outputs.append(np.dot(h, w_q) + b_q)
        return np.concatenate(outputs, axis=0), (h,)
    scratch = d2l.RNNModelScratch(size, 8, device, parameters, lambda batch, hidden, ctx: (np.zeros((batch, hidden), ctx=ctx),), run)
    for net in (scratch, d2l.RNNModel(rnn.LSTM(8), size), d2l.RNNModel(rnn.GRU(8), size)):
        d2l.train_ch8(net, sequences(words), words, 1, 1, device)
    assert capsys.readouterr().out.count("perplexity") == 3


class AttentionDecoder(d2l.AttentionDecoder):
    """A decoder with additive attention, as in the book."""

    def __init__(self, vocab_size, embed_size, num_hiddens, num_layers, dropout=0, **kwargs):
        super().__init__(**kwargs)
        self.attention = d2l.AdditiveAttention(num_hiddens, dropout)
        self.embedding = nn.Embedding(vocab_size, embed_size)
        self.rnn = rnn.GRU(num_hiddens, num_layers, dropout=dropout)
        self.dense = nn.Dense(vocab_size, flatten=False)

    def init_state(self, enc_outputs, enc_valid_lens, *args):
        outputs, hidden_state = enc_outputs
        return outputs.swapaxes(0, 1), hidden_state, enc_valid_lens

    def forward(self, X, state):
        enc_outputs, hidden_state, enc_valid_lens = state
        X = self.embedding(X).swapaxes(0, 1)
        outputs, self._attention_weights = [], []
        for x in X:
            query = np.expand_dims(hidden_state[0][-1], axis=1)
            context = self.attention(query, enc_outputs, enc_outputs, enc_valid_lens)
            x = np.concatenate((context, np.expand_dims(x, axis=1)), axis=-1)
            out, hidden_state = self.rnn(x.swapaxes(0, 1), hidden_state)
            hidden_state = hidden_state[0] if isinstance(hidden_state[0], list) else hidden_state
            outputs.append(out)
            self._attention_weights.append(self.attention.attention_weights)
        outputs = self.dense(np.concatenate(outputs, axis=0))
        return outputs.swapaxes(0, 1), [enc_outputs, hidden_state, enc_valid_lens]

    @property
    def attention_weights(self):
        return self._attention_weights


def test_train_seq2seq(capsys):
    words = Words()
    lines = [list("time"), list("will"), list("be"), list("convenient"), list("speak"), list("him")]
    source, lengths = d2l.build_array_nmt(lines, words, 8)
    data = d2l.load_array((source, lengths, source, lengths), 3)
    net = d2l.EncoderDecoder(d2l.Seq2SeqEncoder(len(words), 8, 8, 2, 0.1), AttentionDecoder(len(words), 8, 8, 2, 0.1))
    d2l.train_seq2seq(net, data, 0.01, 2, words, d2l.try_gpu())
    assert "loss" in capsys.readouterr().out
    text, weights = d2l.predict_seq2seq(net, "t i m e", words, words, 4, d2l.try_gpu(), True)
    assert isinstance(text, str) and weights and 0 <= d2l.bleu("a b c", "a b d", 2) <= 1


def test_transformer():
    encoder = d2l.TransformerEncoder(30, 16, 32, 4, 2, 0.1)
    encoder.initialize()
    tokens = np.ones((2, 7))
    with autograd.record():
        out = encoder(tokens, np.array([3, 2]))
        out.sum().backward()
    assert out.shape == (2, 7, 16) and type(out) is np.ndarray and encoder.attention_weights[0].shape == (8, 7, 7)
    attention = d2l.MultiHeadAttention(16, 4, 0.1)
    attention.initialize()
    assert attention(np.ones((2, 4, 16)), np.ones((2, 6, 16)), np.ones((2, 6, 16)), np.array([3, 2])).shape == (2, 4, 16)
    weights = d2l.masked_softmax(np.random.uniform(size=(2, 2, 4)), np.array([2, 3]))
    assert onp.allclose(weights.sum(-1).asnumpy(), 1) and float(weights[0, :, 2:].max()) == 0


def test_train_ch11(capsys):
    x = np.random.normal(size=(400, 3))
    data = d2l.load_array((x, np.dot(x, np.array([1.0, 2, 3]))), 10)

    def update(params, states, hyperparams):
        for p in params:
            p[:] -= hyperparams["lr"] * p.grad
    d2l.train_ch11(update, None, {"lr": 0.1}, data, 3, 1)
    d2l.train_concise_ch11("adam", {"learning_rate": 0.05}, data, 1)
    assert capsys.readouterr().out.count("loss:") == 2
    trace = d2l.train_2d(lambda a, b, s, t: (a - 0.1 * a, b - 0.1 * b, 0, 0))
    d2l.show_trace_2d(lambda a, b: a**2 + 2 * b**2, trace)


def test_train_ch13(pictures, capsys):
    net = nn.Sequential()
    net.add(nn.Conv2D(4, 3, 2, activation="relu"), d2l.Residual(4), nn.GlobalAvgPool2D(), nn.Dense(4))
    net.initialize(init.Xavier())
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.01})
    d2l.train_ch13(net, pictures, pictures, gluon.loss.SoftmaxCrossEntropyLoss(), trainer, 1, [mx.cpu(0)])
    assert "test acc" in capsys.readouterr().out
    big = d2l.resnet18(10)
    big.initialize()
    assert big(np.ones((1, 3, 16, 16))).shape == (1, 10)


def test_boxes():
    feature = np.random.uniform(size=(1, 3, 4, 5))
    anchors = d2l.multibox_prior(feature, sizes=[0.75, 0.5], ratios=[1, 2])
    assert anchors.shape == (1, 4 * 5 * 3, 4)
    truth = np.array([[0, 0.1, 0.08, 0.52, 0.92], [1, 0.55, 0.2, 0.9, 0.88]])
    boxes = np.array([[0, 0.1, 0.2, 0.3], [0.15, 0.2, 0.4, 0.4], [0.63, 0.05, 0.88, 0.98], [0.66, 0.45, 0.8, 0.8], [0.57, 0.3, 0.92, 0.9]])
    offset, mask, classes = d2l.multibox_target(np.expand_dims(boxes, 0), np.expand_dims(truth, 0))
    assert classes.asnumpy().tolist() == [[0, 1, 2, 0, 2]] and mask.shape == offset.shape == (1, 20)
    boxes = np.array([[0.1, 0.08, 0.52, 0.92], [0.08, 0.2, 0.56, 0.95], [0.15, 0.3, 0.62, 0.91], [0.55, 0.2, 0.9, 0.88]])
    scores = np.array([[0] * 4, [0.9, 0.8, 0.7, 0.1], [0.1, 0.2, 0.3, 0.9]])
    found = d2l.multibox_detection(np.expand_dims(scores, 0), np.expand_dims(np.zeros(16), 0), np.expand_dims(boxes, 0))
    assert found.shape == (1, 4, 6) and sorted(found[0, :, 0].asnumpy().tolist()) == [-1, -1, 0, 1]
    assert npx.multibox_prior(feature, sizes=(0.5,), ratios=(1, 2)).shape == (1, 40, 4)


def test_bert():
    net = d2l.BERTModel(40, 16, 32, 2, 2, 0.1, max_len=20)
    net.initialize(init.Xavier())
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.01})
    loss = gluon.loss.SoftmaxCELoss()
    tokens = np.random.randint(0, 40, (4, 10))
    places, weights = np.array([[1, 3], [2, 4], [1, 2], [3, 5]]), np.ones((4, 2))
    first = last = None
    for _ in range(5):
        with autograd.record():
            _, _, total = d2l._get_batch_loss_bert(
                net, loss, 40, [tokens], [np.zeros((4, 10))], [np.array([10, 8, 9, 7])], [places], [weights],
                [np.random.randint(0, 3, (4, 2))], [np.array([0, 1, 0, 1])])
        total[0].backward()
        trainer.step(1)
        last = float(total[0])
        first = last if first is None else first
    assert math.isfinite(last) and last < first


def test_word_vectors():
    centers, contexts, masks, labels = d2l.batchify([(1, [2, 2], [3, 3, 3, 3]), (1, [2, 2, 2], [3, 3])])
    assert contexts.shape == masks.shape == labels.shape == (2, 6)
    v, u = nn.Embedding(10, 4), nn.Embedding(10, 4)
    v.initialize()
    u.initialize()
    with autograd.record():
        pred = npx.batch_dot(v(centers), u(contexts).swapaxes(1, 2))
        loss = gluon.loss.SigmoidBCELoss()(pred.reshape(labels.shape), labels, masks)
        loss.mean().backward()
    assert loss.shape == (2,)


def test_gan_and_ranking():
    g, d = nn.Sequential(), nn.Sequential()
    g.add(nn.Dense(2))
    d.add(nn.Dense(5, activation="tanh"), nn.Dense(1))
    loss = gluon.loss.SigmoidBCELoss()
    trainers = []
    for net in (g, d):
        net.initialize(init.Normal(0.02), force_reinit=True)
        trainers.append(gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.05}))
    x, z = np.random.normal(0, 1, (8, 2)), np.random.normal(0, 1, (8, 2))
    assert math.isfinite(d2l.update_D(x, z, d, g, loss, trainers[1]) + d2l.update_G(z, d, g, loss, trainers[0]))
    a, b = np.array([1.0, 2]), np.array([0.5, 3])
    assert d2l.BPRLoss()(a, b).shape == (1,) and float(d2l.HingeLossbRec()(a, b)) == 2.5


def test_hybridized_network(pictures):
    net = nn.HybridSequential()
    net.add(nn.Dense(16, activation="relu"), nn.Dense(4))
    net.initialize()
    x = np.random.normal(size=(2, 20))
    plain = net(x)
    net.hybridize()
    assert onp.allclose(plain.asnumpy(), net(x).asnumpy(), rtol=1e-5)
    with d2l.Benchmark("hybridized"):
        net(x).wait_to_read()
