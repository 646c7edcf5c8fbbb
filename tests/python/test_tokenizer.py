"""Byte pair encoding beside a plain implementation, with a vocabulary that the test learns from a text."""
import collections
import json
import os
import pathlib
import random
import unicodedata

import mxnet as mx
import numpy as np
import pytest
from mxnet import gluon

TEXT = pathlib.Path(__file__).parents[2] / "examples" / "data" / "harbour.txt"
SPACES = set("\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000") | {chr(c) for c in range(0x2000, 0x200B)}
ENDINGS = ("'s", "'t", "'re", "'ve", "'m", "'ll", "'d")


def letters():
    """The letter of every byte in files."""
    visible = [b for b in range(256) if 32 < b < 127 or (b > 160 and b != 173)]
    hidden = [b for b in range(256) if b not in set(visible)]
    return {**{b: chr(b) for b in visible}, **{b: chr(256 + i) for i, b in enumerate(hidden)}}


LETTER = letters()


def kind(character):
    return "S" if character in SPACES else {"L": "L", "N": "N"}.get(unicodedata.category(character)[0], "O")


def words(text):
    """Words with the space before them, English endings apart; white space leaves its last character to the next word."""
    at = 0
    while at < len(text):
        end = next((e for e in ENDINGS if text.startswith(e, at)), None)
        start = at + (text[at] == " " and at + 1 < len(text))
        if end:
            stop = at + len(end)
        elif kind(text[start]) != "S":
            stop = start
            while stop < len(text) and kind(text[stop]) == kind(text[start]):
                stop += 1
        else:
            stop = at
            while stop < len(text) and kind(text[stop]) == "S":
                stop += 1
            stop -= stop < len(text) and stop - at > 1
        yield text[at:stop]
        at = stop


def merged(word, ranks):
    parts = list(word)
    while len(parts) > 1:
        rank, i = min((ranks.get(pair, 1 << 30), i) for i, pair in enumerate(zip(parts, parts[1:])))
        if rank == 1 << 30:
            return parts
        parts[i:i + 2] = [parts[i] + parts[i + 1]]
    return parts


def learn(text, count):
    """The pairs that occur most, one after another."""
    found = collections.Counter("".join(LETTER[b] for b in word.encode()) for word in words(text))
    split, ranks = {word: list(word) for word in found}, {}
    for rank in range(count):
        pairs = collections.Counter()
        for word, parts in split.items():
            for pair in zip(parts, parts[1:]):
                pairs[pair] += found[word]
        best = max(sorted(pairs), key=pairs.get)
        ranks[best] = rank
        split = {word: merged(word, ranks) if "".join(best) in word else parts for word, parts in split.items()}
    return ranks


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    folder = tmp_path_factory.mktemp("words")
    ranks = learn(TEXT.read_text()[:20000], 150)
    vocabulary = {token: i for i, token in enumerate(list(LETTER.values()) + ["".join(pair) for pair in ranks])}
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    (folder / "merges.txt").write_text("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in ranks), encoding="utf-8")
    return gluon.data.Tokenizer(str(folder)), ranks, vocabulary


def test_tokens_are_those_of_a_plain_implementation(learned):
    tokenizer, ranks, vocabulary = learned
    chooser = random.Random(3)
    pool = [chr(c) for c in range(32, 127)] + list("äß中文한국ع३½²Ⅷ😀\u00a0\u2003\u3000\t\n\r") + list(ENDINGS) + ["the ", "  ", "\n\n"] * 3
    texts = [TEXT.read_text()[:3000]] + ["".join(chooser.choices(pool, k=chooser.randrange(50))) for _ in range(300)]
    texts += ["".join(chr(chooser.randrange(1, 0xD7FF)) for _ in range(30)) for _ in range(30)]
    for text in texts:
        wanted = [vocabulary[token] for word in words(text) for token in merged("".join(LETTER[b] for b in word.encode()), ranks)]
        found = tokenizer.encode(text)
        assert found.dtype == np.int32 and found.asnumpy().tolist() == wanted, repr(text)
        assert tokenizer.decode(found) == text
    assert len(tokenizer.encode(TEXT.read_text())) < 0.6 * len(TEXT.read_text())


def test_any_bytes(learned):
    tokenizer = learned[0]
    blob = os.urandom(5000)
    assert mx._core.tokenizer_decode(tokenizer._handle, tokenizer.encode(blob)) == blob
    assert tokenizer.decode([0, 1]) == "!\"" and len(tokenizer) == 406
    assert tokenizer["!"] == 0 and "no such token" not in tokenizer


def test_errors(learned, tmp_path):
    with pytest.raises(OSError, match="vocab.json"):
        gluon.data.Tokenizer(str(tmp_path))
    with pytest.raises(ValueError, match="no token 406"):
        learned[0].decode([406])
    with pytest.raises(KeyError):
        learned[0]["no such token"]
    (tmp_path / "tokenizer.json").write_text('{"model": {"type": "WordPiece"}}')
    with pytest.raises(mx.MXNetError, match="BPE"):
        gluon.data.Tokenizer(str(tmp_path / "tokenizer.json"))
