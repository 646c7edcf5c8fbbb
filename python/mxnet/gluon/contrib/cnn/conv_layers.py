"""Deformable convolutions: the library's classes, with two more options of MXNet that only select the operator."""
from ... import _forms
from .._rows import MADE, placed

__all__ = ["DeformableConvolution", "ModulatedDeformableConvolution"]

placed(__all__, __name__)


def _checked(kwargs, name):
    """Checks and removes the options op_name and adj."""
    operator, adj = kwargs.pop("op_name", name), kwargs.pop("adj", None)
    if operator != name:
        raise ValueError(f"{name}: op_name={operator!r}, expected {name!r}")
    if adj is not None:
        raise ValueError(f"{name}: adj={adj!r}, expected None: the layer is not transposed")
    return kwargs


class DeformableConvolution(MADE["DeformableConvolution"]):
    __doc__ = MADE["DeformableConvolution"].__doc__

    def __init__(self, channels, *args, **kwargs):
        super().__init__(channels, *args, **_checked(kwargs, "DeformableConvolution"))

    def _alias(self):
        return "deformable_conv"


class ModulatedDeformableConvolution(MADE["ModulatedDeformableConvolution"]):
    __doc__ = MADE["ModulatedDeformableConvolution"].__doc__

    def __init__(self, channels, *args, **kwargs):
        super().__init__(channels, *args, **_checked(kwargs, "ModulatedDeformableConvolution"))

    def _alias(self):
        return "modulated_deformable_conv"

    @property
    def offset_split_index(self):
        """Where the offsets end and the mask begins."""
        return self._kwargs_offset["num_filter"] // 3 * 2


_forms.add_to_deformable(DeformableConvolution, 2)
_forms.add_to_deformable(ModulatedDeformableConvolution, 3)
