"""Texts as tokens of several bytes."""
from ... import _core
from ...ndarray import NDArray, array

__all__ = ["Tokenizer"]


class Tokenizer:
    """Byte pair encoding, as GPT-2 and its successors have it.

    Parameters
    ----------
    path : str
        A folder with ``vocab.json`` and ``merges.txt``, or a ``tokenizer.json`` with a byte-level BPE model.

    Any text has tokens, and decoding gives it back. Special tokens inside a text are ordinary text; ``tokenizer["<|endoftext|>"]``
    is the number of one.

    >>> words = gluon.data.Tokenizer("gpt2")
    >>> words.decode(words.encode("The harbour"))
    'The harbour'
    """

    def __init__(self, path):
        self._handle = _core.tokenizer_open(path)

    def __len__(self):
        """All tokens are below it."""
        return _core.tokenizer_size(self._handle)

    def __getitem__(self, text):
        token = _core.tokenizer_find(self._handle, text)
        if token < 0:
            raise KeyError(text)
        return token

    def __contains__(self, text):
        return _core.tokenizer_find(self._handle, text) >= 0

    def encode(self, text):
        """The tokens of a text (str or bytes) as an int32 array."""
        return _core.tokenizer_encode(self._handle, text.encode() if isinstance(text, str) else text)

    def decode(self, tokens):
        """The text of tokens, an array or a list of numbers; bytes that are not UTF-8 become U+FFFD."""
        if not isinstance(tokens, NDArray):
            tokens = array(tokens, dtype="int32")
        return _core.tokenizer_decode(self._handle, tokens).decode(errors="replace")
