"""Words and their vectors: vocabularies, embeddings from files."""
from . import embedding, utils, vocab
from .vocab import Vocabulary

__all__ = ["Vocabulary", "embedding", "utils", "vocab"]
