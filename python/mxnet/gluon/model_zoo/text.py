"""Networks for texts.

    net = text.gpt2_124m()                              or text.GPT2(num_layers=4, units=128, num_heads=4, vocab_size=256)
    scores = net(tokens)                                tokens (N, T), scores of the tokens that follow (N, T, vocab_size)
    vectors, pooled = text.bert_12_768_12()(tokens, segments, valid_length)

    cache = net.begin_cache(batch_size=N, length=256)   texts of at most 256 tokens
    scores, *cache = net(tokens, start, *cache)         start (N): how many tokens came before; scores (N, vocab_size)

Hybridized, the network compiles one plan for every T: one for a beginning, one for single tokens.
"""
from ... import _core
from .. import _layers

_CLASSES = _layers.make(_layers.LAYER, module=__name__, group="text")
_MODELS = {name: (cls, options) for name, cls, options, _ in _core.text_models()}
BERT, GPT2, GPT2Cell = _CLASSES["BERT"], _CLASSES["GPT2"], _CLASSES["GPT2Cell"]


def _begin_cache(self, batch_size, length):
    """Empty keys and values for texts of at most `length` tokens, where the parameters are."""
    return _core.text_cache(self, batch_size, length)


GPT2.begin_cache = _begin_cache


def get_model(name, **kwargs):
    """A network by its name, such as "gpt2_124m"; arguments replace options of its class."""
    if str(name).lower() not in _MODELS:
        raise ValueError(f"get_model: there is no network '{name}'; there are " + ", ".join(_MODELS))
    cls, options = _MODELS[str(name).lower()]
    return _CLASSES[cls](**{**options, **kwargs})


def _function(name):
    def build(**kwargs):
        return get_model(name, **kwargs)

    cls, options = _MODELS[name]
    build.__wrapped_model__ = name  # for the stubs
    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"{cls}({', '.join(f'{key}={value!r}' for key, value in options.items())}, ...)"
    return build


globals().update({name: _function(name) for name in _MODELS})
__all__ = ["BERT", "GPT2", "GPT2Cell", "get_model", *_MODELS]
