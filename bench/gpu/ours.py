"""Our side of bench/gpu/models.py: networks as a user writes them, and one training step of each."""
import numpy as np

from sizes import BERT, BERT_LM, GPT2, LSTM


def networks():
    from mxnet import gluon
    from mxnet.gluon import nn, rnn

    class LanguageModel(gluon.HybridBlock):
        """Words to vectors, a stacked LSTM, scores of the next word."""

        def __init__(self, vocabulary, size, layers, **sizes):
            super().__init__()
            with self.name_scope():
                self.embed = nn.Embedding(vocabulary, size)
                self.lstm = rnn.LSTM(size, layers, input_size=size)
                self.scores = nn.Dense(vocabulary, flatten=False, in_units=size)

        def hybrid_forward(self, F, words):  # (T, N)
            return self.scores(self.lstm(self.embed(words)))

    class GPT2Cell(gluon.HybridBlock):
        def __init__(self, units, heads, **sizes):
            super().__init__()
            with self.name_scope():
                self.norm1, self.norm2 = nn.LayerNorm(in_channels=units), nn.LayerNorm(in_channels=units)
                self.attention = nn.MultiHeadAttention(units, heads, causal=True)
                self.wide = nn.Dense(4 * units, flatten=False, in_units=units)
                self.gelu = nn.GELU()
                self.narrow = nn.Dense(units, flatten=False, in_units=4 * units)

        def hybrid_forward(self, F, x):
            x = x + self.attention(self.norm1(x))
            return x + self.narrow(self.gelu(self.wide(self.norm2(x))))

    class GPT2Model(gluon.HybridBlock):
        """(N, T) words to (N, T, vocabulary) scores; the output layer has the weights of the embedding."""

        def __init__(self, vocabulary, units, layers, steps, **sizes):
            super().__init__()
            with self.name_scope():
                self.embed = nn.Embedding(vocabulary, units)
                self.places = self.params.get("places", shape=(1, steps, units))
                self.cells = nn.HybridSequential()
                for _ in range(layers):
                    self.cells.add(GPT2Cell(units, **sizes))
                self.norm = nn.LayerNorm(in_channels=units)
                self.scores = nn.Dense(vocabulary, flatten=False, in_units=units, use_bias=False,
                                       params=self.embed.params)

        def hybrid_forward(self, F, words, places):
            x = F.broadcast_add(self.embed(words), places)
            return self.scores(self.norm(self.cells(x)))

    class BERTCell(gluon.HybridBlock):
        """An encoder cell of classic operators on (T, N, C), as GluonNLP wrote it."""

        def __init__(self, units, heads, hidden, dropout, **sizes):
            super().__init__()
            self._heads = heads
            with self.name_scope():
                self.roles = nn.Dense(3 * units, flatten=False, in_units=units)
                self.out = nn.Dense(units, flatten=False, in_units=units)
                self.norm1, self.norm2 = nn.LayerNorm(in_channels=units), nn.LayerNorm(in_channels=units)
                self.wide = nn.Dense(hidden, flatten=False, in_units=units)
                self.gelu = nn.GELU()
                self.narrow = nn.Dense(units, flatten=False, in_units=hidden)
                self.dropout = nn.Dropout(dropout)

        def hybrid_forward(self, F, x):
            roles = self.roles(x)
            scores = F.contrib.interleaved_matmul_selfatt_qk(roles, heads=self._heads)
            weights = self.dropout(F.softmax(scores))
            means = F.contrib.interleaved_matmul_selfatt_valatt(roles, weights, heads=self._heads)
            x = self.norm1(x + self.dropout(self.out(means)))
            return self.norm2(x + self.dropout(self.narrow(self.gelu(self.wide(x)))))

    class BERTModel(gluon.HybridBlock):
        """(T, N) words to (T, N, vocabulary) scores."""

        def __init__(self, vocabulary, units, layers, steps, **sizes):
            super().__init__()
            with self.name_scope():
                self.embed = nn.Embedding(vocabulary, units)
                self.places = self.params.get("places", shape=(steps, 1, units))
                self.norm = nn.LayerNorm(in_channels=units)
                self.cells = nn.HybridSequential()
                for _ in range(layers):
                    self.cells.add(BERTCell(units, **sizes))
                self.scores = nn.Dense(vocabulary, flatten=False, in_units=units)

        def hybrid_forward(self, F, words, places):
            return self.scores(self.cells(self.norm(F.broadcast_add(self.embed(words), places))))

    def encoder():
        return nn.TransformerEncoder(BERT["layers"], BERT["units"], BERT["hidden"], BERT["heads"], dropout=0.1,
                                     activation="gelu")
    return {"lstm": lambda: LanguageModel(**LSTM), "bert": encoder, "gpt2": lambda: GPT2Model(**GPT2),
            "bert_lm": lambda: BERTModel(**BERT_LM), "mobilenet": gluon.model_zoo.vision.mobilenet_v2_1_0,
            "resnet50": gluon.model_zoo.vision.resnet50_v1, "resnet50_bf16": gluon.model_zoo.vision.resnet50_v1}


def inputs(row, context):
    """Input and target of a row."""
    from mxnet import nd

    def words(count, *shape):
        return nd.array(np.random.randint(0, count, shape), ctx=context)
    if row == "lstm":
        return [words(LSTM["vocabulary"], LSTM["steps"], LSTM["batch"]) for _ in range(2)]
    if row == "gpt2":
        return [words(GPT2["vocabulary"], GPT2["batch"], GPT2["steps"]) for _ in range(2)]
    if row == "bert_lm":
        return [words(BERT_LM["vocabulary"], BERT_LM["steps"], BERT_LM["batch"]) for _ in range(2)]
    if row == "bert":
        shape = BERT["batch"], BERT["steps"], BERT["units"]
        return [nd.random.normal(shape=shape, ctx=context).astype("bfloat16") for _ in range(2)]
    x = nd.random.uniform(shape=(128, 3, 224, 224), ctx=context)
    return x.astype("bfloat16") if row.endswith("bf16") else x, words(1000, 128)


def training_step(row, whole=True):
    """(step, wait, how): how() says in which way the step ran."""
    import mxnet as mx
    from mxnet import autograd, gluon, nd
    context, net = mx.gpu(0), networks()[row]()
    loss = gluon.loss.L2Loss() if row == "bert" else gluon.loss.SoftmaxCrossEntropyLoss()
    x, y = inputs(row, context)
    net.initialize(mx.init.Normal(0.02) if row in ("gpt2", "bert_lm") else mx.init.Xavier(), ctx=context)
    rates = {"learning_rate": 0.1} if row == "lstm" else {"learning_rate": 0.01, "momentum": 0.9}
    if row in ("gpt2", "bert_lm"):
        rates = {"learning_rate": 1e-4}
    if row in ("bert", "gpt2", "bert_lm") or row.endswith("bf16"):
        net.cast("bfloat16")
        rates["multi_precision"] = True
    net.hybridize(static_alloc=True, static_shape=True)
    loss.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "adam" if row in ("gpt2", "bert_lm") else "sgd", rates)
    if whole:
        step = gluon.TrainStep(net, loss, trainer)
        return lambda: step(x, y), nd.waitall, lambda: "whole step" if step.compiled else "as the imperative loop"

    def plain():
        with autograd.record():
            value = loss(net(x), y)
        value.backward()
        trainer.step(x.shape[0])
    return plain, nd.waitall, lambda: "hybridized"
