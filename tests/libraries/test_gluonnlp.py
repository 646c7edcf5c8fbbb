"""GluonNLP: language models, BERT, translation with beam search, ELMo's parts, vocabularies; each learns a little."""
import numpy as np
import pytest

import gluonnlp as nlp
import mxnet as mx
from mxnet import autograd, gluon, nd

from common import compare, falls

WORDS = "the ship came into the harbour and the harbour master saw the ship".split()


def train(net, step, rate=0.01, steps=10, optimizer="adam"):
    trainer = gluon.Trainer(net.collect_params(), optimizer, {"learning_rate": rate})
    losses = []
    for _ in range(steps):
        with autograd.record():
            loss = step().mean()
        loss.backward()
        trainer.step(1)
        losses.append(float(loss.asscalar()))
    falls(losses)


def test_vocabulary_and_batches(tmp_path):
    counter = nlp.data.count_tokens(WORDS)
    vocab = nlp.Vocab(counter, min_freq=1)
    assert vocab["ship"] == vocab.token_to_idx["ship"] and vocab.to_tokens(vocab["ship"]) == "ship"
    copied = nlp.Vocab.from_json(vocab.to_json())
    assert copied.token_to_idx == vocab.token_to_idx
    (tmp_path / "vectors.txt").write_text("ship 1 2\nharbour 3 4\n")
    vocab.set_embedding(nlp.embedding.TokenEmbedding.from_file(str(tmp_path / "vectors.txt"), elem_delim=" "))
    assert vocab.embedding["ship"].asnumpy().tolist() == [1, 2]
    batchify = nlp.data.batchify.Tuple(nlp.data.batchify.Pad(pad_val=0), nlp.data.batchify.Stack())
    lengths = [len(WORDS[:n]) for n in (3, 5, 2, 7)]
    data = gluon.data.SimpleDataset([(vocab[WORDS[:n]], n) for n in lengths])
    sampler = nlp.data.FixedBucketSampler(lengths, batch_size=2, num_buckets=2, shuffle=True)
    seen = 0
    for tokens, sizes in gluon.data.DataLoader(data, batch_sampler=sampler, batchify_fn=batchify):
        assert tokens.shape[0] == sizes.shape[0] and tokens.shape[1] == int(sizes.max().asscalar())
        seen += tokens.shape[0]
    assert seen == 4


@pytest.mark.parametrize("mode", ["lstm", "gru", "rnn_tanh"])
def test_language_model_learns(mode):
    vocab = nlp.Vocab(nlp.data.count_tokens(WORDS))
    net = nlp.model.StandardRNN(mode, len(vocab), 8, 16, 1, dropout=0.0, tie_weights=False)
    net.initialize(mx.init.Xavier())
    net.hybridize()
    tokens = nd.array(vocab[WORDS]).reshape((-1, 1))
    loss = gluon.loss.SoftmaxCrossEntropyLoss()

    def step():
        output, _ = net(tokens[:-1], net.begin_state(batch_size=1, func=nd.zeros))
        return loss(output.reshape((-3, -1)), tokens[1:].reshape((-1,)))
    train(net, step, 0.03)


def test_awd_language_model():
    net = nlp.model.AWDRNN("lstm", 20, 8, 12, 2, tie_weights=False, drop_h=0.0, drop_i=0.0, drop_e=0.0, weight_drop=0.3, dropout=0.0)
    net.initialize(mx.init.Xavier())
    tokens = nd.array(np.random.randint(0, 20, (6, 2)))
    output, state = net(tokens, net.begin_state(batch_size=2, func=nd.zeros))
    assert output.shape == (6, 2, 20) and len(state) == 2


def bert(**options):
    encoder = nlp.model.BERTEncoder(num_layers=2, units=16, hidden_size=32, max_length=12, num_heads=2, dropout=0.1)
    return nlp.model.BERTModel(encoder, vocab_size=30, token_type_vocab_size=2, units=16, embed_size=16, **options)


def test_bert():
    tokens, types = nd.array(np.random.randint(0, 30, (2, 9))), nd.zeros((2, 9))
    length = nd.array([9, 5])
    outputs = compare(bert(use_decoder=False, use_classifier=False), tokens, types, length)
    assert [o.shape for o in outputs] == [(2, 9, 16), (2, 16)]


def test_bert_classifier_learns():
    net = nlp.model.BERTClassifier(bert(use_decoder=False, use_classifier=False), num_classes=2, dropout=0.0)
    net.initialize(mx.init.Normal(0.1))
    net.hybridize(static_alloc=True)
    labels = nd.array([0, 1, 0, 1])
    tokens = nd.array(np.random.randint(5, 30, (4, 9)))
    tokens[:, 0] = labels
    loss = gluon.loss.SoftmaxCELoss()
    train(net, lambda: loss(net(tokens, nd.zeros((4, 9)), nd.array([9, 9, 9, 9])), labels), 0.01, optimizer="bertadam")


def test_masked_words():
    net = bert()
    net.initialize(mx.init.Normal(0.1))
    tokens, positions = nd.array(np.random.randint(0, 30, (2, 9))), nd.array([[1, 2], [3, 4]])
    sequence, pooled, sentence, words = net(tokens, nd.zeros((2, 9)), nd.array([9, 9]), positions)
    assert sequence.shape == (2, 9, 16) and pooled.shape == (2, 16)
    assert sentence.shape == (2, 2) and words.shape == (2, 2, 30)


def translator(vocab):
    encoder, decoder, one_step = nlp.model.transformer.get_transformer_encoder_decoder(
        num_layers=1, num_heads=2, units=16, hidden_size=32, dropout=0.0, max_src_length=12, max_tgt_length=12)
    return nlp.model.translation.NMTModel(src_vocab=vocab, tgt_vocab=vocab, encoder=encoder, decoder=decoder,
                                          one_step_ahead_decoder=one_step, share_embed=True, embed_size=16, tie_weights=True, prefix="transformer_")


def test_translator_learns_and_searches():
    """A sentence learns to translate into itself; beam search runs with the hybridized decoder."""
    vocab = nlp.Vocab(nlp.data.count_tokens(WORDS))
    net = translator(vocab)
    net.initialize(mx.init.Xavier(magnitude=3.0))
    net.hybridize(static_alloc=True)
    source = nd.array([vocab[WORDS[:6]], vocab[WORDS[4:10]]])
    target = nd.array([[vocab["<bos>"]] + row + [vocab["<eos>"]] for row in (vocab[WORDS[:6]], vocab[WORDS[4:10]])])
    length = nd.array([6, 6])
    loss = nlp.loss.MaskedSoftmaxCELoss()

    def step():
        output, _ = net(source, target[:, :-1], length, length + 1)
        return loss(output, target[:, 1:], length + 1)
    train(net, step, 0.02, 12)
    states = net.decoder.init_state_from_encoder(net.encode(source, valid_length=length)[0], length)
    def decode(step, state):
        output, state, _ = net.decode_step(step, state)
        return nd.log_softmax(output), state
    searcher = nlp.model.BeamSearchSampler(beam_size=3, decoder=decode, eos_id=vocab["<eos>"], max_length=8,
                                           scorer=nlp.model.BeamSearchScorer())
    samples, scores, lengths = searcher(nd.array([vocab["<bos>"]] * 2), states)
    assert samples.shape[:2] == (2, 3) and scores.shape == (2, 3) and lengths.shape == (2, 3)
    assert (np.diff(scores.asnumpy(), axis=1) <= 0).all()  # best first
    assert not np.array_equal(samples[0, 0].asnumpy(), samples[1, 0].asnumpy())  # every sentence its own


@pytest.mark.parametrize("make, inputs", [
    (lambda: nlp.model.ConvolutionalEncoder(embed_size=8, num_filters=(4, 5), ngram_filter_sizes=(2, 3)),
     lambda: (nd.random.uniform(shape=(6, 2, 8)), nd.ones((6, 2)))),
    (lambda: nlp.model.Highway(input_size=8, num_layers=2), lambda: (nd.random.uniform(shape=(4, 8)),)),
    (lambda: nlp.model.MultiHeadAttentionCell(nlp.model.DotProductAttentionCell(scaled=True), 8, 8, 8, 2),
     lambda: (nd.random.uniform(shape=(2, 3, 8)), nd.random.uniform(shape=(2, 5, 8)))),
    (lambda: nlp.model.MLPAttentionCell(units=8),
     lambda: (nd.random.uniform(shape=(2, 3, 8)), nd.random.uniform(shape=(2, 5, 8)))),
    (lambda: nlp.model.BiLMEncoder(mode="lstmpc", num_layers=2, input_size=8, hidden_size=12, proj_size=8),
     lambda: (nd.random.uniform(shape=(5, 2, 8)),)),
], ids=["convolution", "highway", "multi-head attention", "additive attention", "bidirectional language model"])
def test_parts(make, inputs):
    net, given = make(), inputs()
    if isinstance(net, nlp.model.BiLMEncoder):
        net.initialize(mx.init.Xavier())
        output, _ = net(*given, net.begin_state(mx.nd.zeros, batch_size=2))
        assert output.shape[1:3] == (5, 2)
    else:
        compare(net, *given)


def test_attention_weights_sum_to_one():
    cell = nlp.model.DotProductAttentionCell(scaled=True)
    cell.initialize()
    context, weights = cell(nd.random.uniform(shape=(2, 3, 8)), nd.random.uniform(shape=(2, 5, 8)))
    assert context.shape == (2, 3, 8)
    np.testing.assert_allclose(weights.sum(axis=-1).asnumpy(), 1, rtol=1e-5)
