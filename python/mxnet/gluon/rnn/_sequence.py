"""Sequences as one array or as a list of steps, for cells."""
from ... import ndarray as nd
from ..._core import NDArray, Symbol
from ..parameter import tensor_types

def is_tensor(x):
    """Whether x is one array or Symbol."""
    return isinstance(x, tensor_types)


def _operators(x):
    """nd or sym, whichever x belongs to."""
    if isinstance(x, NDArray) and not isinstance(x, Symbol):
        return nd
    from ... import symbol
    return symbol


def format_sequence(length, inputs, layout, merge, in_layout=None):
    """(inputs, time axis, operators, batch size): as one array with merge True, a list of steps with False, as they are
    with None.  The size of the batch is 0 for Symbols."""
    if inputs is None:
        raise AssertionError("unroll: inputs is None; pass an array, or a list of one array per step")
    axis, batch_axis = layout.find("T"), layout.find("N")
    if axis < 0 or batch_axis < 0:
        raise ValueError(f"unroll: layout={layout!r}, wanted 'NTC' or 'TNC'")
    in_axis = (in_layout or layout).find("T")
    if is_tensor(inputs):
        F = _operators(inputs)
        batch = inputs.shape[batch_axis] if F is nd else 0
        if merge is False:
            inputs = _split(F, inputs, length, in_axis)
    else:
        inputs = list(inputs)
        if length is not None and len(inputs) != length:
            raise AssertionError(f"unroll: inputs has {len(inputs)} steps, length is {length}")
        F = _operators(inputs[0])
        batch = inputs[0].shape[0] if F is nd else 0
        if merge:
            inputs, in_axis = F.stack(*inputs, axis=axis), axis
    if is_tensor(inputs) and axis != in_axis:
        inputs = F.swapaxes(inputs, dim1=axis, dim2=in_axis)
    return inputs, axis, F, batch


def _split(F, inputs, length, axis):
    if F is nd:
        if length is not None and length != inputs.shape[axis]:
            raise AssertionError(f"unroll: inputs has shape {inputs.shape}, which is {inputs.shape[axis]} steps; "
                                 f"length is {length}")
        length = inputs.shape[axis]
    elif length is None:
        raise AssertionError("unroll: a Symbol needs length")
    parts = F.split(inputs, axis=axis, num_outputs=length, squeeze_axis=True)
    return list(parts) if length > 1 else [parts if is_tensor(parts) else parts[0]]


def begin_state_of(cell, F, begin_state, inputs, batch_size):
    """States to begin with where none are given: zeros like the inputs."""
    if begin_state is not None:
        return begin_state
    if F is not nd:
        return cell.begin_state(func=F.zeros, batch_size=batch_size)
    first = inputs if is_tensor(inputs) else inputs[0]
    return cell.begin_state(func=F.zeros, batch_size=batch_size, ctx=first.context, dtype=first.dtype)


def mask_sequence(F, data, length, valid_length, time_axis, merge):
    """Zeros past the end of each sequence."""
    if valid_length is None:
        raise AssertionError("unroll: valid_length is None")
    if not is_tensor(data):
        data = F.stack(*data, axis=time_axis)
    outputs = F.SequenceMask(data, sequence_length=valid_length, use_sequence_length=True, axis=time_axis)
    if merge:
        return outputs
    outputs = F.split(outputs, num_outputs=length, axis=time_axis, squeeze_axis=True)
    return [outputs] if is_tensor(outputs) and length == 1 else list(outputs)


def last_states(F, all_states, valid_length):
    """The states at the end of each sequence, from those of all steps."""
    return [F.SequenceLast(F.stack(*steps, axis=0), sequence_length=valid_length, use_sequence_length=True, axis=0)
            for steps in zip(*all_states)]


def reverse_sequence(F, steps, valid_length=None):
    """The steps backwards; with valid_length each sequence begins at its own end, and what is past it stays."""
    if valid_length is None:
        return list(reversed(steps))
    turned = F.SequenceReverse(F.stack(*steps, axis=0), sequence_length=valid_length, use_sequence_length=True)
    if len(steps) == 1:
        return [F.squeeze(turned, axis=0)]
    return list(F.split(turned, axis=0, num_outputs=len(steps), squeeze_axis=True))
