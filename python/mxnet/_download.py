"""Files from the network, or from a folder that takes its place.

A file is written to NAME.part and renamed when it is complete and has the expected SHA-1.  The part is locked while it
is written, so that of several processes one downloads and the others wait for its file; what an interrupted download
left is continued where the server can do that.  `requests` is used where it is installed, else urllib; both honour the
usual proxy variables.
"""
import contextlib
import hashlib
import os
import shutil
import socket
import sys
import time
import urllib.parse

from .error import FileError

REPOSITORY = "https://apache-mxnet.s3-accelerate.dualstack.amazonaws.com/"
CHUNK = 1 << 16
TIMEOUT = 30  # seconds without a byte


class DownloadError(FileError):
    """A file that could not be downloaded."""


class HashError(DownloadError, UserWarning):
    """A downloaded file with another SHA-1 than expected."""


class _Final(OSError):
    """A refusal that another attempt will not change."""


def repository():
    """Where published files are: MXNET_GLUON_REPO (a URL or a folder), or MXNet's own place; ends with a slash."""
    place = os.environ.get("MXNET_GLUON_REPO") or REPOSITORY
    return place if place.endswith("/") else place + "/"


def sha1_of(path):
    """The SHA-1 of a file, as text."""
    digest = hashlib.sha1()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def is_complete(path, sha1):
    """Whether the file exists and has the SHA-1, if one is given."""
    return os.path.isfile(path) and (not sha1 or sha1_of(path) == sha1)


def fetch(url, target, sha1=None, attempts=5, verify_ssl=True):
    """Downloads url to the file target, which is replaced only by a complete file."""
    os.makedirs(os.path.dirname(os.path.abspath(target)), exist_ok=True)
    before = _stamp(target)
    with _locked_part(target) as (part, file):
        if _stamp(target) != before and is_complete(target, sha1):
            os.remove(part)  # another process was faster
            return
        try:
            _try(url, target, file, sha1, max(attempts, 1), verify_ssl)
        except BaseException:
            if not sha1 or not file.seek(0, os.SEEK_END):  # without a sum nobody can continue it later
                os.remove(part)
            raise
        os.replace(part, target)


def _try(url, target, file, sha1, attempts, verify_ssl):
    state = {"validator": None}  # what identifies the version of which `file` has the beginning
    problem = None
    for attempt in range(attempts):
        if attempt:
            time.sleep(min(0.1 * 2 ** (attempt - 1), 5))
        try:
            _transfer(url, file, bool(sha1), verify_ssl, state, os.path.basename(target))
            file.flush()
            if not sha1 or sha1_of(file.name) == sha1:
                return
            problem, got = "hash", sha1_of(file.name)
            file.truncate(0)
        except OSError as error:
            problem = error
            if isinstance(error, _Final) or (attempt and _is_unknown_host(error)):
                break
    if problem == "hash":
        raise HashError(f"download: {url} was downloaded, but its SHA-1 is {got}, expected {sha1}; the file there may be "
                        f"another version, or damaged: {target} was not written")
    raise DownloadError(f"download: cannot download {url} to {target}: {_reason(problem)}; without a network, put the file "
                        f"there by hand, or set MXNET_GLUON_REPO to a mirror or to a folder that has it") from problem


def _is_unknown_host(error):
    while error is not None:
        if isinstance(error, socket.gaierror) or "NameResolution" in type(error).__name__:
            return True
        inner = getattr(error, "reason", None)
        inner = inner if isinstance(inner, BaseException) else None
        error = inner or error.__cause__ or error.__context__
    return False


def _reason(error):
    text = str(getattr(error, "reason", None) or error)
    return text if len(text) <= 300 else text[:300] + " ..."


# ---- the part -------------------------------------------------------------------------------------------------------

def _stamp(path):
    try:
        info = os.stat(path)
    except OSError:
        return None
    return info.st_ino, info.st_mtime_ns, info.st_size


@contextlib.contextmanager
def _locked_part(target):
    """(name, file) of a part that nobody else writes; waits for another process that does."""
    part = target + ".part"
    while True:
        file = open(part, "a+b")
        try:
            import fcntl
            fcntl.flock(file, fcntl.LOCK_EX)
            ours = _stamp(part) is not None and os.stat(part).st_ino == os.fstat(file.fileno()).st_ino
        except (ImportError, OSError):  # no locks here: a name of our own
            file.close()
            part = f"{target}.{os.getpid()}.part"
            file, ours = open(part, "w+b"), True
        if ours:
            break
        file.close()  # renamed or removed by the process that had it
    with file:
        yield part, file


# ---- one attempt ----------------------------------------------------------------------------------------------------

def _transfer(url, file, resume, verify_ssl, state, name):
    """Appends to the file what is missing."""
    start = file.seek(0, os.SEEK_END) if resume or state["validator"] else 0
    blocks, total, start = _open(url, start, verify_ssl, state)
    file.truncate(start)
    bar = _Bar(name, total, start)
    done = start
    try:
        for block in blocks:
            file.write(block)
            done += len(block)
            bar.show(done)
    finally:
        bar.close()
        close = getattr(blocks, "close", None)
        if close:
            close()
    if total is not None and done != total:
        raise OSError(f"the connection ended after {done} of {total} bytes")


def _open(url, start, verify_ssl, state):
    """(blocks, bytes in all or None, first byte of the blocks)"""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme in ("", "file") or len(parts.scheme) == 1:
        return _open_local(urllib.parse.unquote(parts.path) if parts.scheme == "file" else url, start)
    headers = {"Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
        if state["validator"]:
            headers["If-Range"] = state["validator"]
    status, got, blocks = _get(url, headers, verify_ssl)
    if status == 416:  # what we have is not the beginning of that file
        state["validator"] = None
        status, got, blocks = _get(url, {"Accept-Encoding": "identity"}, verify_ssl)
    if status not in (200, 206):
        kind = _Final if 400 <= status < 500 and status not in (408, 425, 429) else OSError
        raise kind(f"the server answers with status {status}")
    start = start if status == 206 else 0
    state["validator"] = got.get("ETag") or got.get("Last-Modified")
    length = got.get("Content-Length")
    known = length and length.isdigit() and not got.get("Content-Encoding")
    return blocks, (start + int(length) if known else None), start


def _open_local(path, start):
    path = os.path.expanduser(path)
    if not os.path.isfile(path):
        raise _Final(f"there is no file {path}")
    size = os.path.getsize(path)
    start = start if start <= size else 0
    file = open(path, "rb")
    file.seek(start)

    def blocks():
        with file:
            yield from iter(lambda: file.read(CHUNK), b"")

    return blocks(), size, start


def _get(url, headers, verify_ssl):
    """(status, headers, blocks) of a URL."""
    try:
        import requests
    except ImportError:
        return _get_plain(url, headers, verify_ssl)
    more = {}
    if requests.get is requests.api.get:  # a caller's own function need not know these
        more = {"headers": headers, "timeout": TIMEOUT}
    try:
        answer = requests.get(url, stream=True, verify=verify_ssl, **more)
    except ValueError as error:
        raise _Final(f"the URL cannot be used: {error}") from error
    return answer.status_code, getattr(answer, "headers", None) or {}, answer.iter_content(chunk_size=CHUNK)


def _get_plain(url, headers, verify_ssl):
    import http.client
    import ssl
    import urllib.error
    import urllib.request
    context = ssl.create_default_context() if verify_ssl else ssl._create_unverified_context()
    opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=context))  # reads the proxy variables now
    try:
        answer = opener.open(urllib.request.Request(url, headers=headers), timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers, iter(())
    except (ValueError, http.client.InvalidURL) as error:
        raise _Final(f"the URL cannot be used: {error}") from error

    def blocks():
        with answer:
            try:
                yield from iter(lambda: answer.read(CHUNK), b"")
            except http.client.HTTPException as error:
                raise OSError(f"the connection broke: {error!r}") from error

    return answer.status, answer.headers, blocks()


class _Bar:
    """Progress, on a terminal only."""

    def __init__(self, name, total, start):
        self._name, self._total, self._start = name, total, start
        self._began = self._shown = time.monotonic()
        self._on = sys.stderr is not None and sys.stderr.isatty()
        self._drawn = False

    def show(self, done):
        """Draws at most ten times a second."""
        now = time.monotonic()
        if not self._on or (now - self._shown < 0.1 and done != self._total):
            return
        self._shown, self._drawn = now, True
        speed = (done - self._start) / max(now - self._began, 1e-3) / 1e6
        if self._total:
            filled = 24 * done // self._total
            text = f"[{'#' * filled}{'.' * (24 - filled)}] {done / 1e6:.1f} of {self._total / 1e6:.1f} MB"
        else:
            text = f"{done / 1e6:.1f} MB"
        line = f"{self._name}  {text}  {speed:.1f} MB/s"
        width = shutil.get_terminal_size().columns - 1
        sys.stderr.write("\r" + line[:width].ljust(width))
        sys.stderr.flush()

    def close(self):
        """Ends the line."""
        if self._drawn:
            sys.stderr.write("\n")
            sys.stderr.flush()


# ---- archives -------------------------------------------------------------------------------------------------------

def unpack(archive, folder, names=None):
    """Writes files of a .zip or .tar archive into folder, without the archive's own folders, each atomically.

    names: the files that are wanted; None: all.  Returns those that were written.
    """
    import tarfile
    import zipfile
    written = []
    os.makedirs(folder, exist_ok=True)

    def write(name, source):
        base = os.path.basename(name)
        if base and (names is None or base in names):
            part = os.path.join(folder, f"{base}.{os.getpid()}.part")
            with source() as reader, open(part, "wb") as file:
                shutil.copyfileobj(reader, file, 1 << 20)
            os.replace(part, os.path.join(folder, base))
            written.append(base)

    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as opened:
                for entry in opened.infolist():
                    if not entry.is_dir():
                        write(entry.filename, lambda: opened.open(entry))
        else:
            with tarfile.open(archive) as opened:
                for entry in opened:
                    if entry.isfile():
                        write(entry.name, lambda: opened.extractfile(entry))
    except (tarfile.TarError, zipfile.BadZipFile, EOFError) as error:
        raise FileError(f"{archive}: cannot be unpacked: {error}") from error
    return written
