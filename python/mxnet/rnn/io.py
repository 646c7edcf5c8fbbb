"""Sentences as batches of one length each."""
import bisect
import logging
import random

from .. import ndarray as nd
from ..io import DataBatch, DataDesc, DataIter

__all__ = ["BucketSentenceIter", "encode_sentences"]


def encode_sentences(sentences, vocab=None, invalid_label=-1, invalid_key="\n", start_label=0, unknown_token=None):
    """(sentences as lists of indices, vocabulary): without a vocabulary every new word gets the next index.

    A word that is not in the given vocabulary becomes unknown_token, or is an error if there is none.
    """
    grow = vocab is None
    vocab = {invalid_key: invalid_label} if grow else vocab
    number, encoded = start_label, []
    for sentence in sentences:
        row = []
        for word in sentence:
            if word not in vocab:
                if not grow and unknown_token is None:
                    raise AssertionError(f"encode_sentences: {word!r} is not in the vocabulary; set unknown_token "
                                         f"to allow such words")
                if unknown_token is not None:
                    word = unknown_token
                if word not in vocab:
                    number += number == invalid_label
                    vocab[word] = number
                    number += 1
            row.append(vocab[word])
        encoded.append(row)
    return encoded, vocab


class BucketSentenceIter(DataIter):
    """Batches of sentences, each batch of one bucket: sentences up to a length, padded with invalid_label.

    The label of a word is the next word.  buckets: lengths; None: the lengths with at least batch_size sentences.
    """

    def __init__(self, sentences, batch_size, buckets=None, invalid_label=-1, data_name="data",
                 label_name="softmax_label", dtype="float32", layout="NT"):
        super().__init__(batch_size)
        if layout not in ("NT", "TN"):
            raise ValueError(f"BucketSentenceIter: layout={layout!r}, expected 'NT' or 'TN'")
        self.buckets = sorted(buckets or _lengths(sentences, batch_size))
        if not self.buckets:
            raise ValueError("BucketSentenceIter: there are no buckets: no length has a batch of sentences")
        self.data_name, self.label_name, self.dtype, self.layout = data_name, label_name, dtype, layout
        self.invalid_label, self.default_bucket_key = invalid_label, max(self.buckets)
        self.data = self._sorted_in(sentences)
        self.provide_data = [self._described(data_name, self.default_bucket_key)]
        self.provide_label = [self._described(label_name, self.default_bucket_key)]
        self.idx = [(i, at) for i, rows in enumerate(self.data)
                    for at in range(0, len(rows) - batch_size + 1, batch_size)]
        self.curr_idx = 0
        self.reset()

    def _sorted_in(self, sentences):
        """Rows of indices per bucket."""
        import numpy as np
        rows, discarded = [[] for _ in self.buckets], 0
        for sentence in sentences:
            at = bisect.bisect_left(self.buckets, len(sentence))
            if at == len(self.buckets):
                discarded += 1
                continue
            row = np.full((self.buckets[at],), self.invalid_label, dtype=self.dtype)
            row[:len(sentence)] = sentence
            rows[at].append(row)
        if discarded:
            logging.warning("BucketSentenceIter: %d sentences are longer than the largest bucket and are skipped",
                            discarded)
        return [np.asarray(group, dtype=self.dtype).reshape((-1, size)) for group, size in zip(rows, self.buckets)]

    def _described(self, name, length):
        shape = (self.batch_size, length) if self.layout == "NT" else (length, self.batch_size)
        return DataDesc(name, shape, self.dtype, self.layout)

    def reset(self):
        """Rewinds to the beginning, in a new order."""
        import numpy as np
        self.curr_idx = 0
        random.shuffle(self.idx)
        for rows in self.data:
            np.random.shuffle(rows)

    def next(self):
        """The next batch; its bucket_key is the length of its sentences."""
        import numpy as np
        if self.curr_idx == len(self.idx):
            raise StopIteration
        bucket, at = self.idx[self.curr_idx]
        self.curr_idx += 1
        data = self.data[bucket][at:at + self.batch_size]
        label = np.full_like(data, self.invalid_label)
        label[:, :-1] = data[:, 1:]
        if self.layout == "TN":
            data, label = data.T, label.T
        length = self.buckets[bucket]
        return DataBatch([nd.array(data, dtype=self.dtype)], [nd.array(label, dtype=self.dtype)], pad=0,
                         bucket_key=length,
                         provide_data=[self._described(self.data_name, length)],
                         provide_label=[self._described(self.label_name, length)])


def _lengths(sentences, batch_size):
    counts = {}
    for sentence in sentences:
        counts[len(sentence)] = counts.get(len(sentence), 0) + 1
    return [length for length, count in counts.items() if count >= batch_size]
