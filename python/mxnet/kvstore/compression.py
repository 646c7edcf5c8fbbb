"""Options of gradient compression, which the library implements."""

__all__ = ["checked"]


def checked(params):
    """(type, threshold) of {'type': '2bit', 'threshold': 0.5}."""
    if not isinstance(params, dict) or "type" not in params:
        raise ValueError(f"gradient compression: expected a dict with a 'type', got {params!r}")
    extra = sorted(set(params) - {"type", "threshold"})
    if extra:
        raise ValueError(f"gradient compression: unknown option {extra[0]!r}; there are 'type' and 'threshold'")
    return str(params["type"]), float(params.get("threshold", 0.5))
