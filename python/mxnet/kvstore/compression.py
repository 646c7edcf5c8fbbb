"""Gradients in two bits: what an element loses is kept and added to the next one.

    r = residual + gradient;    sent = t where r >= t, -t where r <= -t, else 0;    residual = r - sent

So sums over many steps come out right, whatever the threshold t is.
"""

__all__ = ["TwoBit"]


class TwoBit:
    """The compression of one store: a residual per key and context."""

    def __init__(self, threshold=0.5):
        self.threshold, self._residuals = threshold, {}

    @staticmethod
    def from_params(params):
        """From {'type': '2bit', 'threshold': 0.5}, checked; 'none' gives None."""
        if not isinstance(params, dict) or "type" not in params:
            raise ValueError(f"gradient compression: a dict with a 'type' is wanted, got {params!r}")
        extra = sorted(set(params) - {"type", "threshold"})
        if extra:
            raise ValueError(f"gradient compression: there is no option {extra[0]!r}, only 'type' and 'threshold'")
        if params["type"] == "none":
            return None
        if params["type"] != "2bit":
            raise ValueError(f"gradient compression: type={params['type']!r}, wanted '2bit' or 'none'")
        threshold = float(params.get("threshold", 0.5))
        if not threshold > 0:
            raise ValueError(f"gradient compression: threshold={threshold}, wanted more than 0")
        return TwoBit(threshold)

    def pressed(self, key, gradients):
        """What is sent instead of the gradients of all contexts."""
        return [self._one((key, i), gradient) for i, gradient in enumerate(gradients)]

    def _one(self, place, gradient):
        before = self._residuals.get(place)
        whole = gradient if before is None else before + gradient
        sent = ((whole >= self.threshold) - (whole <= -self.threshold)) * self.threshold
        self._residuals[place] = whole - sent
        return sent.astype(gradient.dtype, copy=False)
