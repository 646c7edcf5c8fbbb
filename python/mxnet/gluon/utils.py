"""Helpers for training: splitting batches, clipping gradients, hooks, files."""
import math
import os
import warnings
import weakref

from .. import _download
from .._core import NDArray, array
from ..context import cpu

__all__ = ["split_data", "split_and_load", "clip_global_norm", "check_sha1", "download", "HookHandle",
           "replace_file"]


class HookHandle:
    """The result of register_forward_hook: detach() removes the hook; so does the end of a `with` block."""

    def __init__(self):
        self._hooks_dict_ref, self._id = None, None

    def attach(self, hooks_dict, hook):
        """Adds the hook to a dictionary of hooks, under its id."""
        if self._hooks_dict_ref is not None:
            raise RuntimeError("HookHandle.attach: this handle already has a hook; use another one")
        self._id = id(hook)
        hooks_dict[self._id] = hook
        self._hooks_dict_ref = weakref.ref(hooks_dict)

    def detach(self):
        """Removes the hook."""
        hooks = self._hooks_dict_ref and self._hooks_dict_ref()
        if hooks is not None and self._id in hooks:
            del hooks[self._id]

    def __getstate__(self):
        return self._hooks_dict_ref and self._hooks_dict_ref(), self._id

    def __setstate__(self, state):
        hooks, self._id = state
        self._hooks_dict_ref = None if hooks is None else weakref.ref(hooks)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.detach()


def split_data(data, num_slice, batch_axis=0, even_split=True):
    """Splits data into num_slice slices along batch_axis; if even_split is False, the first slices may be one longer, and
    there may be empty ones."""
    size = data.shape[batch_axis]
    if even_split and size % num_slice:
        raise ValueError(f"split_data: {size} examples cannot be split evenly into {num_slice} slices; use a batch size that "
                         f"is a multiple of {num_slice}, or set even_split=False")
    if num_slice == 1:
        return [data]
    step, longer = divmod(size, num_slice)
    bounds = [i * step + min(i, longer) for i in range(num_slice + 1)]
    before = (slice(None),) * (batch_axis % len(data.shape))
    return [data[before + (slice(bounds[i], bounds[i + 1]),)] for i in range(num_slice)]


def split_and_load(data, ctx_list, batch_axis=0, even_split=True):
    """Splits data into one slice per context and copies each to its context."""
    if not isinstance(data, NDArray):
        data = array(data, ctx=ctx_list[0])
    if len(ctx_list) == 1:
        return [data.as_in_context(ctx_list[0])]
    return [piece.as_in_context(ctx) for piece, ctx in zip(split_data(data, len(ctx_list), batch_axis, even_split), ctx_list)]


def clip_global_norm(arrays, max_norm, check_isfinite=True):
    """Scales arrays in place so that the 2-norm of all of them together is at most max_norm; returns the norm."""
    if not arrays:
        raise AssertionError("clip_global_norm: there are no arrays")
    from .. import ndarray as nd
    total = nd.add_n(*[nd.square(x).sum().as_in_context(arrays[0].ctx) for x in arrays]).sqrt()
    norm = total.asscalar() if check_isfinite else None
    if check_isfinite and not math.isfinite(norm):
        warnings.warn("clip_global_norm: the norm is not finite; the gradients become NaN", stacklevel=2)
    scale = nd.minimum(max_norm / (total + 1e-8), 1.0)
    for x in arrays:
        x *= scale.as_in_context(x.ctx).astype(x.dtype, copy=False)
    return float(norm) if check_isfinite else total


def replace_file(src, dst):
    """Renames a file atomically: readers see either the complete old file or the complete new one."""
    os.replace(src, dst)


def check_sha1(filename, sha1_hash):
    """Whether a file has this SHA-1."""
    return _download.sha1_of(filename) == sha1_hash


def download(url, path=None, overwrite=False, sha1_hash=None, retries=5, verify_ssl=True):
    """Downloads a file unless it exists (with that SHA-1, if one is given); returns its path.

    path: the file, or an existing folder for it; default: the current folder.  retries: how often it is tried.
    A URL may also be file:///... or the name of a file.
    """
    name = url.split("/")[-1]
    if path is None:
        if not name:
            raise AssertionError(f"download: the URL {url!r} has no file name; pass path")
        target = name
    else:
        path = os.path.expanduser(os.fspath(path))
        target = os.path.join(path, name) if os.path.isdir(path) else path
    if retries < 0:
        raise AssertionError("download: retries must not be negative")
    if not verify_ssl:
        warnings.warn("download: verify_ssl=False: the server's certificate is not checked", UserWarning, stacklevel=2)
    if overwrite or not os.path.exists(target) or not _download.is_complete(target, sha1_hash):
        _download.fetch(url, target, sha1_hash, retries, verify_ssl)
    return target


def shape_is_known(shape):
    """Whether every size of a shape is known; 0 and -1 are not, nor is the empty shape."""
    return shape is not None and len(shape) > 0 and all(size > 0 for size in shape)


def _get_repo_url():
    """The repository of published files: MXNET_GLUON_REPO or MXNet's own; ends with a slash."""
    return _download.repository()


def _get_repo_file_url(namespace, filename):
    """The URL of a published file."""
    return f"{_download.repository()}{namespace}/{filename}"
