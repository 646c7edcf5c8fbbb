"""Counting words."""
import collections
import re

__all__ = ["count_tokens_from_str"]


def count_tokens_from_str(source_str, token_delim=" ", seq_delim="\n", to_lower=False, counter_to_update=None):
    """Counts the tokens of a text in a collections.Counter; delimiters are regular expressions.

    The counts are added to counter_to_update if it is given.
    """
    text = source_str.lower() if to_lower else source_str
    counter = collections.Counter() if counter_to_update is None else counter_to_update
    counter.update(token for token in re.split(f"{token_delim}|{seq_delim}", text) if token)
    return counter
