"""Vocabularies: words and their indices."""
import collections

__all__ = ["Vocabulary"]


class Vocabulary:
    """Indices of words: 0 is unknown_token, then reserved_tokens, then the words of a counter, the most frequent
    first, equally frequent ones in alphabetical order.

    Words rarer than min_freq are left out, and those beyond the most_freq_count most frequent ones.
    """

    def __init__(self, counter=None, most_freq_count=None, min_freq=1, unknown_token="<unk>", reserved_tokens=None):
        if min_freq < 1:
            raise AssertionError(f"Vocabulary: min_freq={min_freq}, expected 1 or more")
        if reserved_tokens is not None:
            if unknown_token in reserved_tokens:
                raise AssertionError(f"Vocabulary: unknown_token {unknown_token!r} is among the reserved tokens")
            if len(set(reserved_tokens)) != len(reserved_tokens):
                raise AssertionError("Vocabulary: a reserved token is listed twice")
        self._unknown_token = unknown_token
        self._reserved_tokens = None if reserved_tokens is None else list(reserved_tokens)
        self._idx_to_token = [unknown_token] + (self._reserved_tokens or [])
        self._token_to_idx = {token: i for i, token in enumerate(self._idx_to_token)}
        if counter is not None:
            self._index_counter_keys(counter, unknown_token, reserved_tokens, most_freq_count, min_freq)

    def _index_counter_keys(self, counter, unknown_token, reserved_tokens, most_freq_count, min_freq):
        """Appends the words of a counter."""
        if not isinstance(counter, collections.Counter):
            raise AssertionError(f"Vocabulary: counter must be a collections.Counter, got {type(counter).__name__}")
        ordered = sorted(sorted(counter.items(), key=lambda pair: pair[0]), key=lambda pair: -pair[1])
        taken = 0
        for token, count in ordered:
            if count < min_freq or taken == most_freq_count:
                break
            if token not in self._token_to_idx:
                self._token_to_idx[token] = len(self._idx_to_token)
                self._idx_to_token.append(token)
                taken += 1

    def __len__(self):
        return len(self._idx_to_token)

    def __contains__(self, token):
        return token in self._token_to_idx

    @property
    def token_to_idx(self):
        """Indices by word."""
        return self._token_to_idx

    @property
    def idx_to_token(self):
        """Words by index."""
        return self._idx_to_token

    @property
    def unknown_token(self):
        """The token for words that are not in the vocabulary."""
        return self._unknown_token

    @property
    def reserved_tokens(self):
        """Words that are always in the vocabulary; None: none."""
        return self._reserved_tokens

    def to_indices(self, tokens):
        """The index of a word, or those of a list of words; 0 for unknown words."""
        if isinstance(tokens, (list, tuple)):
            return [self._token_to_idx.get(token, 0) for token in tokens]
        return self._token_to_idx.get(tokens, 0)

    def to_tokens(self, indices):
        """The word of an index, or those of a list of indices."""
        if isinstance(indices, (list, tuple)):
            return [self._word(i) for i in indices]
        return self._word(indices)

    def _word(self, i):
        if not isinstance(i, int) or isinstance(i, bool) or not 0 <= i < len(self._idx_to_token):
            raise ValueError(f"Vocabulary.to_tokens: {i!r} is not a number from 0 to {len(self._idx_to_token) - 1}")
        return self._idx_to_token[i]
