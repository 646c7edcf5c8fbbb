"""Texts for language models: WikiText, from local files or downloaded."""
import collections
import os

from .... import _download
from .... import ndarray as nd
from ....base import data_dir
from ....error import FileError
from ...data.dataset import Dataset
from ...utils import _get_repo_file_url, download

__all__ = ["WikiText2", "WikiText103"]

EOS_TOKEN = "<eos>"


class _WikiText(Dataset):
    """Samples are (data, label), both (seq_len,): indices of words, and of the words that follow."""

    _files = {}
    _namespace = None  # folder of the archive in the repository
    _archive_file = None  # (name, SHA-1)

    def __init__(self, root, segment, vocab, seq_len):
        if segment not in self._files:
            raise KeyError(f"{type(self).__name__}: segment={segment!r}, expected one of {', '.join(self._files)}")
        self._root, self._segment, self._seq_len = os.path.expanduser(root), segment, seq_len
        self._vocab, self._counter = vocab, None
        self._data, self._label = self._read(os.path.join(self._root, self._files[segment]))

    @property
    def vocabulary(self):
        """The vocabulary; if none was given, that of the words in the file."""
        return self._vocab

    @property
    def frequencies(self):
        """Counts of the words in the file."""
        return self._counter

    def _read(self, path):
        from ....contrib.text import Vocabulary
        if not os.path.isfile(path):
            self._get_files(path)
        with open(path, encoding="utf8") as file:
            lines = [line.split() for line in file]
        words = [word for line in lines if line for word in line + [EOS_TOKEN]]
        self._counter = collections.Counter(words)
        if self._vocab is None:
            self._vocab = Vocabulary(self._counter, reserved_tokens=[EOS_TOKEN])
        indices = self._vocab.to_indices(words)
        count = (len(indices) - 1) // self._seq_len
        if count <= 0:
            raise ValueError(f"{type(self).__name__}: '{path}' has {len(indices)} words, fewer than one sequence of "
                             f"{self._seq_len}")
        cut = count * self._seq_len
        return tuple(nd.array(part, dtype="int32").reshape((count, self._seq_len))
                     for part in (indices[:cut], indices[1:cut + 1]))

    def _get_files(self, path):
        name, sha1 = self._archive_file
        try:
            archive = download(_get_repo_file_url("gluon/dataset/" + self._namespace, name),
                               path=os.path.join(self._root, name), sha1_hash=sha1)
            _download.unpack(archive, self._root, set(self._files.values()))
        except FileError as error:
            raise type(error)(f"{type(self).__name__}: there is no file '{path}', and downloading it failed ({error}); unpack "
                              f"the data set so that {', '.join(self._files.values())} are in '{self._root}'") from error

    def __getitem__(self, idx):
        return self._data[idx], self._label[idx]

    def __len__(self):
        return self._data.shape[0]


def _default(name):
    return os.path.join(data_dir(), "datasets", name)


class WikiText2(_WikiText):
    """WikiText-2: articles of Wikipedia, two million words, from wiki.{train,valid,test}.tokens in the folder `root`.

    segment: 'train', 'validation' or 'test'.  vocab: a Vocabulary; None: built from the words of the file.
    """

    _files = {"train": "wiki.train.tokens", "validation": "wiki.valid.tokens", "test": "wiki.test.tokens"}
    _namespace = "wikitext-2"
    _archive_file = ("wikitext-2-v1.zip", "3c914d17d80b1459be871a5039ac23e752a53cbe")

    def __init__(self, root=None, segment="train", vocab=None, seq_len=35):
        super().__init__(_default("wikitext-2") if root is None else root, segment, vocab, seq_len)


class WikiText103(_WikiText):
    """WikiText-103: the same kind of text, a hundred million words."""

    _files = WikiText2._files
    _namespace = "wikitext-103"
    _archive_file = ("wikitext-103-v1.zip", "0aec09a7537b58d4bb65362fee27650eeaba625a")

    def __init__(self, root=None, segment="train", vocab=None, seq_len=35):
        super().__init__(_default("wikitext-103") if root is None else root, segment, vocab, seq_len)
