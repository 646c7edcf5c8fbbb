"""Vectors of words, from files on this machine or downloaded.

A file has one word per line, followed by the elements of its vector:  hello 0.1 0.2 0.3
"""
import logging
import os

from ... import _download
from ... import ndarray as nd
from ... import registry
from ...base import data_dir
from ...error import FileError
from . import _constants, vocab

__all__ = ["CompositeEmbedding", "CustomEmbedding", "FastText", "GloVe", "create", "get_pretrained_file_names",
           "register"]


class _TokenEmbedding(vocab.Vocabulary):
    """A vocabulary whose words have vectors: embedding.get_vecs_by_tokens(["hello", "world"])."""

    pretrained_file_name_sha1 = {}
    pretrained_archive_name_sha1 = {}

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self._idx_to_vec, self._vec_len = None, 0

    @property
    def vec_len(self):
        """Number of elements of a vector."""
        return self._vec_len

    @property
    def idx_to_vec(self):
        """All vectors (words, vec_len), by number."""
        return self._idx_to_vec

    # ---- reading ---------------------------------------------------------------------------------------------------

    def _load_embedding(self, path, elem_delim, init_unknown_vec, encoding="utf8"):
        """Reads words and vectors from a file; the vector of unknown words is the file's, or init_unknown_vec(size)."""
        path = os.path.expanduser(path)
        if not os.path.isfile(path):
            raise FileError(f"{type(self).__name__}: there is no file '{path}'")
        rows, unknown = [], None
        with open(path, encoding=encoding) as file:
            for number, line in enumerate(file, 1):
                row = self._parse(line.rstrip(), elem_delim, path, number)
                if row is None:
                    continue
                token, vector = row
                if token == self.unknown_token and unknown is None:
                    unknown = vector
                elif token in self._token_to_idx:
                    logging.warning("%s, line %d: the word %s is a duplicate; this line is skipped", path, number,
                                    token)
                else:
                    self._token_to_idx[token] = len(self._idx_to_token)
                    self._idx_to_token.append(token)
                    rows.append(vector)
        if not rows:
            raise FileError(f"{type(self).__name__}: '{path}' has no vectors")
        self._gather(rows, unknown, init_unknown_vec)

    def _parse(self, line, delimiter, path, number):
        token, *elements = line.split(delimiter)
        if len(elements) <= 1:
            if number == 1:  # "words size": a header line that some files have
                return None
            raise AssertionError(f"{path}, line {number}: the vector of {token!r} has {len(elements)} elements; is "
                                 f"{delimiter!r} the delimiter?")
        if self._vec_len and len(elements) != self._vec_len:
            raise AssertionError(f"{path}, line {number}: the vector of {token!r} has {len(elements)} elements, those "
                                 f"before it {self._vec_len}")
        self._vec_len = len(elements)
        return token, [float(x) for x in elements]

    def _gather(self, rows, unknown, init_unknown_vec):
        first = nd.array([unknown]) if unknown is not None else init_unknown_vec(shape=self._vec_len).reshape((1, -1))
        reserved = len(self._idx_to_token) - len(rows) - 1
        parts = [first] + [init_unknown_vec(shape=self._vec_len).reshape((1, -1)) for _ in range(reserved)]
        self._idx_to_vec = nd.concat(*parts, nd.array(rows), dim=0)

    def _keep_only(self, vocabulary):
        """Replaces words and indices by those of a vocabulary, and reorders the vectors."""
        if not isinstance(vocabulary, vocab.Vocabulary):
            raise AssertionError(f"{type(self).__name__}: vocabulary must be a Vocabulary, got "
                                 f"{type(vocabulary).__name__}")
        self._idx_to_vec = self.get_vecs_by_tokens(vocabulary.idx_to_token)
        self._take_words(vocabulary)

    def _take_words(self, vocabulary):
        self._unknown_token = vocabulary.unknown_token
        self._reserved_tokens = None if vocabulary.reserved_tokens is None else vocabulary.reserved_tokens[:]
        self._idx_to_token = vocabulary.idx_to_token[:]
        self._token_to_idx = dict(vocabulary.token_to_idx)

    # ---- using -----------------------------------------------------------------------------------------------------

    def get_vecs_by_tokens(self, tokens, lower_case_backup=False):
        """The vector of a word, or the vectors (n, vec_len) of a list; lower_case_backup: an unknown word is
        looked up in lower case."""
        one = isinstance(tokens, str)
        words = [tokens] if one else list(tokens)
        known = self._token_to_idx
        if lower_case_backup:
            words = [word if word in known else word.lower() for word in words]
        vectors = nd.take(self._idx_to_vec, nd.array([known.get(word, 0) for word in words]))
        return vectors[0] if one else vectors

    def update_token_vectors(self, tokens, new_vectors):
        """Replaces the vectors of known words."""
        if self._idx_to_vec is None:
            raise AssertionError(f"{type(self).__name__}: it has no vectors yet")
        words = [tokens] if isinstance(tokens, str) else list(tokens)
        if new_vectors.ndim not in (1, 2) or (new_vectors.ndim == 1 and len(words) > 1):
            raise AssertionError(f"update_token_vectors: new_vectors has shape {new_vectors.shape}, expected "
                                 f"({len(words)}, {self._vec_len})")
        new_vectors = new_vectors.reshape((len(words), -1))
        if new_vectors.shape[1] != self._vec_len:
            raise AssertionError(f"update_token_vectors: vectors of {new_vectors.shape[1]} elements, expected "
                                 f"{self._vec_len}")
        for word in words:
            if word not in self._token_to_idx:
                raise ValueError(f"update_token_vectors: {word!r} is not known; {self.unknown_token!r} stands for such "
                                 "words")
        self._idx_to_vec[nd.array([self._token_to_idx[word] for word in words])] = new_vectors


class _NamedFile(_TokenEmbedding):
    """Embeddings from published files in embedding_root/<name in lower case>/; missing ones are downloaded."""

    _archives = {}  # file -> archive

    def __init__(self, pretrained_file_name, embedding_root, init_unknown_vec, vocabulary, kwargs):
        cls = type(self)
        if pretrained_file_name not in cls.pretrained_file_name_sha1:
            raise KeyError(f"{cls.__name__}: there is no file {pretrained_file_name!r}; there are "
                           f"{', '.join(sorted(cls.pretrained_file_name_sha1))}")
        super().__init__(**kwargs)
        root = os.path.join(data_dir(), "embeddings") if embedding_root is None else embedding_root
        self._load_embedding(self._get_pretrained_file(root, pretrained_file_name), " ", init_unknown_vec)
        if vocabulary is not None:
            self._keep_only(vocabulary)

    @classmethod
    def _get_pretrained_file(cls, embedding_root, pretrained_file_name):
        """The path of a file, which is downloaded unless it is there."""
        folder = os.path.join(os.path.expanduser(embedding_root), cls.__name__.lower())
        path = os.path.join(folder, pretrained_file_name)
        if os.path.isfile(path):
            return path
        archive = cls._archives[pretrained_file_name]
        url = f"{_download.repository()}gluon/embeddings/{cls.__name__.lower()}/{archive}"
        packed = os.path.join(folder, archive)
        try:
            _download.fetch(url, packed, cls.pretrained_archive_name_sha1[archive])
            _download.unpack(packed, folder, [pretrained_file_name])
            os.remove(packed)
        except FileError as error:
            raise type(error)(f"{cls.__name__}: there is no file '{path}', and downloading it failed: {error}") from error
        return path

    @classmethod
    def _take_table(cls, table):
        cls.pretrained_file_name_sha1 = {file: sha1 for file, (sha1, _, _) in table.items()}
        cls.pretrained_archive_name_sha1 = {archive: sha1 for _, archive, sha1 in table.values()}
        cls._archives = {file: archive for file, (_, archive, _) in table.items()}


_registered = registry.get_register_func(_TokenEmbedding, "token embedding")


def register(embedding_cls):
    """Registers a class of embeddings, which create() then finds by its name."""
    return _registered(embedding_cls)


@register
class GloVe(_NamedFile):
    """Vectors of GloVe (Stanford)."""

    def __init__(self, pretrained_file_name="glove.840B.300d.txt", embedding_root=None, init_unknown_vec=nd.zeros,
                 vocabulary=None, **kwargs):
        super().__init__(pretrained_file_name, embedding_root, init_unknown_vec, vocabulary, kwargs)


@register
class FastText(_NamedFile):
    """Vectors of fastText, of the Wikipedias in these languages."""

    def __init__(self, pretrained_file_name="wiki.simple.vec", embedding_root=None, init_unknown_vec=nd.zeros,
                 vocabulary=None, **kwargs):
        super().__init__(pretrained_file_name, embedding_root, init_unknown_vec, vocabulary, kwargs)


GloVe._take_table(_constants.GLOVE)
FastText._take_table(_constants.FAST_TEXT)


class CustomEmbedding(_TokenEmbedding):
    """Vectors from a custom file."""

    def __init__(self, pretrained_file_path, elem_delim=" ", encoding="utf8", init_unknown_vec=nd.zeros,
                 vocabulary=None, **kwargs):
        super().__init__(**kwargs)
        self._load_embedding(pretrained_file_path, elem_delim, init_unknown_vec, encoding)
        if vocabulary is not None:
            self._keep_only(vocabulary)


class CompositeEmbedding(_TokenEmbedding):
    """The concatenated vectors of several embeddings, for the words of a vocabulary."""

    def __init__(self, vocabulary, token_embeddings):
        super().__init__()
        listed = token_embeddings if isinstance(token_embeddings, list) else [token_embeddings]
        for one in listed:
            if not isinstance(one, _TokenEmbedding):
                raise AssertionError(f"CompositeEmbedding: expected an embedding, got {type(one).__name__}")
        self._take_words(vocabulary)
        parts = [one.get_vecs_by_tokens(self._idx_to_token) for one in listed]
        self._idx_to_vec = nd.concat(*parts, dim=1) if len(parts) > 1 else parts[0]
        self._vec_len = self._idx_to_vec.shape[1]


create = registry.get_create_func(_TokenEmbedding, "token embedding")


def get_pretrained_file_names(embedding_name=None):
    """Names of files by embedding ('glove', 'fasttext'), or those of one."""
    known = registry.get_registry(_TokenEmbedding)
    if embedding_name is None:
        return {name: list(cls.pretrained_file_name_sha1) for name, cls in known.items()}
    if embedding_name not in known:
        raise KeyError(f"get_pretrained_file_names: there is no embedding {embedding_name!r}; there are "
                       f"{', '.join(sorted(known))}")
    return list(known[embedding_name].pretrained_file_name_sha1)
