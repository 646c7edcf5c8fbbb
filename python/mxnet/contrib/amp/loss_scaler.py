"""The scale of losses: the library's mx_loss_scaler."""
from ... import _core

__all__ = ["LossScaler"]


class LossScaler(_core.LossScaler):
    """The factor that losses are multiplied by so that 16-bit gradients do not vanish.

    The scale starts at init_scale (65536), is halved when a gradient is not finite, and doubled after scale_window
    (2000) steps without that.
    """

    def has_overflow(self, params):
        """Whether a gradient of these parameters is not finite; adjusts the scale."""
        gradients = [grad for p in params if p.grad_req != "null" for grad in p.list_grad()]
        return self._overflow([grad if grad.stype == "default" else grad.data for grad in gradients])
