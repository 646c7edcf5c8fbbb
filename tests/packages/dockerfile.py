"""Runs the steps of the Dockerfile without Docker, each stage in a folder that chroot makes the root: needs root, and a mirror of Debian.

    tests/packages/dockerfile.py [--work FOLDER] [--keep] [--env NAME=VALUE]... [DOCKERFILE]

--env sets a variable for RUN: MAKEFLAGS=LEVELS=generic builds less.  FROM names Debian releases or earlier stages; RUN, COPY, WORKDIR, ENV and CMD are understood, the rest is refused.  At the end the image
must run a program.  Succeeds with a message where chroot is not allowed or nothing can be downloaded.

SPDX-License-Identifier: Apache-2.0
"""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = """
import mxnet as mx
from mxnet import autograd, gluon, nd
net = gluon.nn.Dense(3)
net.initialize()
with autograd.record():
    loss = net(nd.ones((2, 4))).sum()
loss.backward()
assert (net.weight.grad().asnumpy() == 2).all() and mx.context.num_gpus() == 0
print("dockerfile: mxnet", mx.__version__, "works in the image")
"""


class Skipped(Exception):
    """Nothing can be tested here."""


def steps_of(path):
    """[(instruction, rest)] with continued lines joined."""
    with open(path, encoding="utf-8") as file:
        text = re.sub(r"^\s*#.*\n", "", file.read(), flags=re.M)
    lines = re.sub(r"\\\n", " ", text).splitlines()
    return [tuple(line.split(None, 1)) for line in lines if line.strip()]


def base_image(release, work):
    """A minimal Debian; debootstrap is taken from the mirror if it is not installed."""
    root = os.path.join(work, "base-" + release)
    if os.path.exists(os.path.join(root, "complete")):
        return root
    environment = dict(os.environ)
    command = shutil.which("debootstrap")
    if not command:
        tool = os.path.join(work, "debootstrap")
        os.makedirs(tool, exist_ok=True)
        if subprocess.run("apt-get download -q debootstrap && dpkg -x debootstrap_*.deb .", shell=True, cwd=tool).returncode:
            raise Skipped("debootstrap cannot be downloaded")
        command = os.path.join(tool, "usr/sbin/debootstrap")
        environment["DEBOOTSTRAP_DIR"] = os.path.join(tool, "usr/share/debootstrap")
    shutil.rmtree(root, ignore_errors=True)
    done = subprocess.run([command, "--variant=minbase", release, root, "http://deb.debian.org/debian"], env=environment,
                          stdout=subprocess.DEVNULL)
    if done.returncode:
        raise Skipped("debootstrap failed: is there a mirror, and may this user call chroot?")
    open(os.path.join(root, "complete"), "w", encoding="ascii").close()
    return root


class Stage:
    """One image in the making."""

    def __init__(self, root, environment):
        self.root, self.folder, self.environment, self.command = root, "/", dict(environment), None

    def certificates(self):
        """The machine's list of authorities: some networks have their own."""
        own = "/etc/ssl/certs/ca-certificates.crt"
        if not os.path.exists(own):
            return {}
        shutil.copy(own, os.path.join(self.root, "tmp/certificates.crt"))
        return dict.fromkeys(("PIP_CERT", "SSL_CERT_FILE"), "/tmp/certificates.crt")

    def run(self, command):
        """In the image, with nothing of this machine but its network."""
        shutil.copy("/etc/resolv.conf", os.path.join(self.root, "etc/resolv.conf"))
        environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root",
                       "DEBIAN_FRONTEND": "noninteractive", **self.certificates(), **self.environment}
        enter = f"cd {self.folder} && " if self.folder != "/" else ""
        inside = ["/bin/sh", "-c", enter + command] if isinstance(command, str) else command
        # Programs find the libraries beside them by /proc, which a container has; the mount ends with the command.
        mounted = 'mount -t proc proc "$0/proc" && exec chroot "$0" "$@"'
        subprocess.run(["unshare", "--mount", "/bin/sh", "-c", mounted, self.root, *inside], env=environment, check=True)

    def inside(self, path):
        return os.path.join(self.root, os.path.join(self.folder, path).lstrip("/"))


def ignored():
    """Names at the top of the tree that .dockerignore leaves out, as patterns."""
    with open(os.path.join(ROOT, ".dockerignore"), encoding="utf-8") as file:
        return shutil.ignore_patterns(*file.read().split())


def copy(stage, source, target):
    target = stage.inside(target)
    if os.path.isdir(source):
        top = os.path.realpath(source)
        skip = ignored() if top == ROOT else lambda *_: []
        shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True,
                        ignore=lambda place, names: skip(place, names) if os.path.realpath(place) == top else [])
    else:
        shutil.copy(source, target)


def build(path, work, environment):
    """Follows the Dockerfile; returns the last stage."""
    stages, stage = {}, None
    for word, rest in steps_of(path):
        print(f"dockerfile: {word} {rest}", flush=True)
        if word == "FROM":
            match = re.fullmatch(r"(?:debian:(\w+?)(?:-slim)?|(\w+))(?: +AS +(\w+))?", rest.strip())
            if not match or (match[2] and match[2] not in stages):
                sys.exit(f"dockerfile: FROM {rest} is no release of Debian and no earlier stage")
            origin = stages[match[2]].root if match[2] else base_image(match[1], work)
            stage = Stage(os.path.join(work, f"stage{len(stages)}"), environment)
            shutil.rmtree(stage.root, ignore_errors=True)
            subprocess.run(["cp", "-a", "--reflink=auto", origin, stage.root], check=True)
            stages[match[3] or str(len(stages))] = stage
        elif word == "RUN":
            stage.run(rest)
        elif word == "WORKDIR":
            stage.folder = rest.strip()
            os.makedirs(stage.inside("."), exist_ok=True)
        elif word == "ENV":
            stage.environment.update(pair.split("=", 1) for pair in rest.split())
        elif word == "COPY":
            match = re.fullmatch(r"(?:--from=(\w+) +)?(\S+) +(\S+)", rest.strip())
            copy(stage, stages[match[1]].inside(match[2]) if match[1] else os.path.join(ROOT, match[2]), match[3])
        elif word == "CMD":
            stage.command = json.loads(rest)
        else:
            sys.exit(f"dockerfile: {word} is not understood")
    return stage


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--work")
    parser.add_argument("--keep", action="store_true", help="leave the folders there")
    parser.add_argument("--env", action="append", default=[], help="NAME=VALUE, for the steps of RUN")
    parser.add_argument("path", nargs="?", default=os.path.join(ROOT, "Dockerfile"))
    options = parser.parse_args()
    work = options.work or tempfile.mkdtemp()
    try:
        if os.geteuid() != 0:
            raise Skipped("chroot needs root")
        image = build(options.path, work, dict(pair.split("=", 1) for pair in options.env))
        image.folder = "/"
        image.run([*image.command, "-c", PROGRAM])
        image.run("gluon doctor | head -3 && gluon summary squeezenet1.1 | tail -1")
    except Skipped as why:
        print(f"dockerfile: skipped: {why}")
    finally:
        if not options.keep:
            shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
