"""Networks for images.

    net = vision.resnet18_v1(classes=10)
    net = vision.get_model("mobilenetv2_1.0", pretrained=True, root="models")

They take images as (batch, 3, height, width).  For trained parameters, values between 0 and 1 must be normalised with mean
0.485, 0.456, 0.406 and standard deviation 0.229, 0.224, 0.225.
"""
from . import alexnet as _alexnet, densenet, inception, mobilenet, nasnet, resnet, squeezenet, vgg
from ._build import CLASSES
from .alexnet import *  # noqa: F401,F403
from .densenet import *  # noqa: F401,F403
from .inception import *  # noqa: F401,F403
from .mobilenet import *  # noqa: F401,F403
from .nasnet import *  # noqa: F401,F403
from .resnet import *  # noqa: F401,F403
from .squeezenet import *  # noqa: F401,F403
from .vgg import *  # noqa: F401,F403

_PARTS = (resnet, vgg, _alexnet, densenet, squeezenet, inception, mobilenet, nasnet)
__all__ = [name for part in _PARTS for name in part.__all__] + ["get_model"]

# Names that differ from those of the functions.
_SPELLED = {"squeezenet1_0": "squeezenet1.0", "squeezenet1_1": "squeezenet1.1", "inception_v3": "inceptionv3",
            "mobilenet1_0": "mobilenet1.0", "mobilenet0_75": "mobilenet0.75", "mobilenet0_5": "mobilenet0.5",
            "mobilenet0_25": "mobilenet0.25", "mobilenet_v2_1_0": "mobilenetv2_1.0",
            "mobilenet_v2_0_75": "mobilenetv2_0.75", "mobilenet_v2_0_5": "mobilenetv2_0.5",
            "mobilenet_v2_0_25": "mobilenetv2_0.25", "mobilenet_v3_large": "mobilenetv3_large",
            "mobilenet_v3_small": "mobilenetv3_small"}
_MODELS = {_SPELLED.get(name, name): globals()[name] for name in __all__ if name == name.lower() and name[:4] != "get_"}

for _name, _cls in CLASSES.items():  # parts of networks too: pickles find classes by module and name
    globals().setdefault(_name, _cls)


def get_model(name, **kwargs):
    """A network by its name, such as "resnet50_v1"; arguments are passed to its function.

    pretrained=True loads trained parameters from the folder root; all networks accept classes, ctx and prefix.
    """
    make = _MODELS.get(str(name).lower())
    if make is None:
        from ....registry import _advice
        advice = _advice(str(name).lower(), _MODELS)
        raise ValueError(f"get_model: there is no network '{name}'{advice or ';'} there are " + ", ".join(sorted(_MODELS)))
    return make(**kwargs)
