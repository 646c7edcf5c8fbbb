"""Mixed precision:

    amp.init()
    amp.init_trainer(trainer)
    with autograd.record():
        loss = criterion(net(x), y)
        with amp.scale_loss(loss, trainer) as scaled:
            autograd.backward(scaled)
    trainer.step(batch_size)

init() applies to all operators called after it, in every mode and on every device: the library casts the
inputs of those in its lists.  Parameters stay float32; networks that were hybridized before are compiled anew.
"""
import contextlib
import logging

from ... import _core
from ... import symbol as symbols
from ...context import current_context
from ...gluon import HybridBlock, SymbolBlock, Trainer
from . import lists
from .loss_scaler import LossScaler

__all__ = ["init", "init_trainer", "scale_loss", "unscale", "convert_model", "convert_symbol", "convert_hybrid_block",
           "convert_bucketing_module", "list_lp16_ops", "list_fp32_ops", "list_lp16_fp32_ops",
           "list_conditional_fp32_ops", "list_widest_type_cast", "list_loss_output_functions",
           "list_lp16_use_fp32_params"]

_state = {"dtype": None}


def __getattr__(name):
    if name == "_amp_initialized":
        return _state["dtype"] is not None
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def _name(target_dtype, who):
    """'float16' or 'bfloat16' from a name or a type."""
    name = target_dtype if isinstance(target_dtype, str) else \
        getattr(target_dtype, "name", None) or getattr(target_dtype, "__name__", str(target_dtype))
    if name not in ("float16", "bfloat16"):
        raise ValueError(f"{who}: target_dtype={target_dtype!r}, expected 'float16' or 'bfloat16'")
    return name


def init(target_dtype="float16", target_precision_ops=None, conditional_fp32_ops=None, fp32_ops=None):
    """Turns mixed precision on; the lists override the library's choice for their operators. Later calls change nothing.

    target_precision_ops and fp32_ops: names of operators; conditional_fp32_ops: (operator, attribute, [values]).
    """
    name = _name(target_dtype, "amp.init")
    for given, what in ((target_precision_ops, "target_precision_ops"), (conditional_fp32_ops, "conditional_fp32_ops"),
                        (fp32_ops, "fp32_ops")):
        if given is not None and not isinstance(given, (list, tuple)):
            raise AssertionError(f"amp.init: {what} must be a list, got {type(given).__name__}")
    if _state["dtype"] is None:
        _core.amp_init(name)
        try:
            for precision, operators in (("target", target_precision_ops), ("float32", fp32_ops)):
                for op in operators or ():
                    _core.amp_set(op, precision)
            for op, attribute, values in conditional_fp32_ops or ():
                for value in values:
                    _core.amp_set_where(op, attribute, str(value))
        except BaseException:
            _off()
            raise
        _state["dtype"] = name
        logging.getLogger(__name__).info("amp: products are computed in %s", name)


def _off():
    """Turns mixed precision off again."""
    _core.amp_init("float32")
    _state["dtype"] = None


def _trainer(given, who):
    if not isinstance(given, Trainer):
        raise TypeError(f"{who}: expected a gluon.Trainer, got {type(given).__name__}")
    return given


def init_trainer(optimizer_or_trainer):
    """Gives a trainer a loss scale: its steps divide by it, and are skipped if a gradient is not finite."""
    if _state["dtype"] is None:
        raise AssertionError("amp.init_trainer: call amp.init() first")
    trainer = _trainer(optimizer_or_trainer, "amp.init_trainer")
    trainer._amp_loss_scaler = LossScaler()
    trainer._amp_loss_scaler._attach(trainer)


def _scaler(given, who):
    scaler = getattr(_trainer(given, who), "_amp_loss_scaler", None)
    if scaler is None:
        raise AssertionError(f"{who}: the trainer has no scale; call amp.init_trainer(trainer) first")
    return scaler


@contextlib.contextmanager
def scale_loss(loss, optimizer_or_trainer):
    """with scale_loss(loss, trainer) as scaled: the loss, or list of losses, multiplied by the scale."""
    scaler = _scaler(optimizer_or_trainer, "amp.scale_loss")
    if isinstance(loss, (list, tuple)):
        yield [scaler._scale(one) for one in loss]
    else:
        yield scaler._scale(loss)


def unscale(optimizer_or_trainer):
    """Divides the gradients by the scale now, so that they can be clipped before the step."""
    _scaler(optimizer_or_trainer, "amp.unscale")._unscale(optimizer_or_trainer)


# ---- conversion ------------------------------------------------------------------------------------------------------


def convert_symbol(sym, target_dtype="float16", target_dtype_ops=None, fp32_ops=None, conditional_fp32_ops=None,
                   excluded_sym_names=None, data_names=None, cast_optional_params=False):
    """A graph in which products run in 16 bits, and operators that need the precision in float32."""
    if not isinstance(sym, symbols.Symbol):
        raise AssertionError(f"convert_symbol: expected a Symbol, got {type(sym).__name__}")
    return _core.amp_convert(sym, _options("convert_symbol", target_dtype, target_dtype_ops, fp32_ops,
                                           conditional_fp32_ops, excluded_sym_names))


def _options(who, target_dtype, target_dtype_ops, fp32_ops, conditional_fp32_ops, excluded_sym_names):
    """The arguments of a conversion as the library takes them."""
    conditions = None if conditional_fp32_ops is None else \
        [text for op, attribute, values in conditional_fp32_ops for value in values
         for text in (op, attribute, str(value))]
    return _name(target_dtype, who), target_dtype_ops, fp32_ops, conditions, excluded_sym_names


def convert_model(sym, arg_params, aux_params, target_dtype="float16", target_dtype_ops=None, fp32_ops=None,
                  conditional_fp32_ops=None, excluded_sym_names=None, cast_optional_params=False):
    """(symbol, arg_params, aux_params) in mixed precision; cast_optional_params stores parameters in 16 bits if
    they are only used in 16 bits."""
    for value, what in ((arg_params, "arg_params"), (aux_params, "aux_params")):
        if not isinstance(value, dict):
            raise AssertionError(f"convert_model: {what} must be a dict, got {type(value).__name__}")
    made = convert_symbol(sym, target_dtype, target_dtype_ops, fp32_ops, conditional_fp32_ops, excluded_sym_names)
    narrow = _core.amp_cast_variables(made, _name(target_dtype, "convert_model")) if cast_optional_params else ()
    converted = [{name: value.astype(target_dtype) if name in narrow else value.copy() for name, value in given.items()}
                 for given in (arg_params, aux_params)]
    return (made, *converted)


def convert_hybrid_block(block, target_dtype="float16", target_dtype_ops=None, fp32_ops=None, conditional_fp32_ops=None,
                         excluded_sym_names=None, ctx=None, cast_optional_params=False):
    """A mixed-precision copy of a block that was hybridized and has run once; they share nothing."""
    if not isinstance(block, HybridBlock):
        raise AssertionError(f"convert_hybrid_block: expected a HybridBlock, got {type(block).__name__}")
    result = SymbolBlock.__new__(SymbolBlock)
    options = _options("convert_hybrid_block", target_dtype, target_dtype_ops, fp32_ops, conditional_fp32_ops,
                       excluded_sym_names)
    result._outputs = result._start_amp(block, options, cast_optional_params)
    result.reset_ctx(current_context() if ctx is None else ctx)
    result.hybridize()
    return result


def convert_bucketing_module(bucketing_mod, target_dtype="float16", target_dtype_ops=None, fp32_ops=None,
                             conditional_fp32_ops=None, excluded_sym_names=None, cast_optional_params=False):
    """A BucketingModule whose buckets are converted, with the same parameters."""
    from ...module import BucketingModule
    if not isinstance(bucketing_mod, BucketingModule):
        raise AssertionError(f"convert_bucketing_module: expected a BucketingModule, got "
                             f"{type(bucketing_mod).__name__}")

    def converted(key):
        symbol, data_names, label_names = bucketing_mod._symgen(key)
        return (convert_symbol(symbol, target_dtype, target_dtype_ops, fp32_ops, conditional_fp32_ops,
                               excluded_sym_names), data_names, label_names)

    arguments, auxiliary = bucketing_mod.get_params()
    return BucketingModule.load_dict(symgen=converted, default_bucket_key=bucketing_mod._default_bucket_key,
                                     arg_params=arguments, aux_params=auxiliary, **bucketing_mod._options)


# ---- lists -----------------------------------------------------------------------------------------------------------


def list_lp16_ops(target_dtype):
    """Operators that run in 16 bits."""
    _name(target_dtype, "list_lp16_ops")
    return list(lists.TARGET)


def list_fp32_ops(target_dtype):
    """Operators that run in float32."""
    _name(target_dtype, "list_fp32_ops")
    return list(lists.FLOAT32)


def list_lp16_fp32_ops(target_dtype):
    """Operators that take data in any precision, with parameters in float32."""
    _name(target_dtype, "list_lp16_fp32_ops")
    return list(lists.BOTH)


def list_conditional_fp32_ops(target_dtype):
    """(operator, attribute, values) that run in float32."""
    _name(target_dtype, "list_conditional_fp32_ops")
    return list(lists.CONDITIONAL)


def list_widest_type_cast(target_dtype):
    """Operators whose inputs become the widest of their types."""
    _name(target_dtype, "list_widest_type_cast")
    return list(lists.WIDEST)


def list_loss_output_functions(target_dtype):
    """Operators that are losses."""
    _name(target_dtype, "list_loss_output_functions")
    return list(lists.LOSSES)


def list_lp16_use_fp32_params(target_dtype):
    """Arguments that stay in float32 although the operator runs in 16 bits: none."""
    _name(target_dtype, "list_lp16_use_fp32_params")
    return []
