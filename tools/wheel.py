"""Packs a build as a wheel.

    tools/wheel.py BUILD DIST            the package, the library and its headers, the gluon command
    tools/wheel.py --cuda FILE DIST      the CUDA part (libgluon_cuda.so) as a wheel of its own, which installs NVIDIA's libraries

Run it with the interpreter that the build was made for.  The first wheel still needs libjpeg, libpng and zlib of this
machine: `auditwheel repair` puts them inside (make wheel).  libgluon_mpi.so is left out: it belongs to a machine's MPI.

SPDX-License-Identifier: Apache-2.0
"""
import base64
import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile

try:
    import tomllib
except ImportError:  # Python 3.9 and 3.10
    from pip._vendor import tomli as tomllib

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MACHINE = sysconfig.get_platform().replace("-", "_").replace(".", "_")  # linux_x86_64


def project():
    with open(os.path.join(ROOT, "pyproject.toml"), "rb") as file:
        return tomllib.load(file)["project"]


def metadata(about, name, summary, requires, extras=None):
    """The text of METADATA."""
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {about['version']}", f"Summary: {summary}",
             f"License: {about['license']['text']}", f"Requires-Python: {about['requires-python']}"]
    lines += [f"Requires-Dist: {each}" for each in requires]
    for extra, packages in (extras or {}).items():
        lines.append(f"Provides-Extra: {extra}")
        lines += [f"Requires-Dist: {each}; extra == '{extra}'" for each in packages]
    with open(os.path.join(ROOT, about["readme"]), encoding="utf-8") as file:
        return "\n".join(lines) + "\nDescription-Content-Type: text/markdown\n\n" + file.read()


def pack(folder, dist, name, version, tag, texts):
    """Zips `folder` and the files of .dist-info (`texts`: name -> contents); returns the wheel's path."""
    stem = f"{name.replace('-', '_')}-{version}"
    info = os.path.join(folder, stem + ".dist-info")
    os.makedirs(info)
    texts = dict(texts, WHEEL=f"Wheel-Version: 1.0\nGenerator: gluon tools/wheel.py\nRoot-Is-Purelib: false\nTag: {tag}\n")
    for each, text in texts.items():
        with open(os.path.join(info, each), "w", encoding="utf-8") as file:
            file.write(text)
    shutil.copy(os.path.join(ROOT, "LICENSE"), info)
    os.makedirs(dist, exist_ok=True)
    path = os.path.join(dist, f"{stem}-{tag}.whl")
    record = []
    with zipfile.ZipFile(path + ".new", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for place, _, files in sorted(os.walk(folder)):
            for each in sorted(files):
                inside = os.path.relpath(os.path.join(place, each), folder)
                with open(os.path.join(place, each), "rb") as file:
                    digest = base64.urlsafe_b64encode(hashlib.sha256(file.read()).digest()).rstrip(b"=").decode()
                record.append(f"{inside},sha256={digest},{os.path.getsize(os.path.join(place, each))}\n")
                archive.write(os.path.join(place, each), inside)
        archive.writestr(f"{stem}.dist-info/RECORD", "".join(record) + f"{stem}.dist-info/RECORD,,\n")
    os.replace(path + ".new", path)
    return path


def stripped(source, target):
    """Copies a program or library without its debugging information."""
    os.makedirs(os.path.dirname(target), exist_ok=True)
    shutil.copy(source, target)
    subprocess.run(["strip", "--strip-unneeded", target], check=True)


def stage(build, folder):
    """The package's files as they will be installed."""
    package = os.path.join(folder, "mxnet")
    shutil.copytree(os.path.join(build, "python", "mxnet"), package,
                    ignore=shutil.ignore_patterns("__pycache__", "*.so", "CMakeFiles"))
    core = "_core" + sysconfig.get_config_var("EXT_SUFFIX")
    if not os.path.exists(os.path.join(build, "python", "mxnet", core)):
        sys.exit(f"wheel: {build} has no {core}: was it built with another Python?")
    stripped(os.path.join(build, "python", "mxnet", core), os.path.join(package, core))
    stripped(os.path.join(build, "lib", "libgluon.so.0"), os.path.join(package, "lib", "libgluon.so.0"))
    stripped(os.path.join(build, "bin", "gluon"), os.path.join(package, "bin", "gluon"))
    # Wheels have no links: for the linker, this is one.
    with open(os.path.join(package, "lib", "libgluon.so"), "w", encoding="ascii") as file:
        file.write("INPUT(libgluon.so.0)\n")
    shutil.copytree(os.path.join(build, "include"), os.path.join(package, "include"))


def main_wheel(build, dist):
    about = project()
    python = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    with tempfile.TemporaryDirectory() as folder:
        stage(build, folder)
        texts = {"METADATA": metadata(about, about["name"], about["description"], about["dependencies"],
                                      about["optional-dependencies"]),
                 "entry_points.txt": "[console_scripts]\ngluon = mxnet.config:command\n"}
        return pack(folder, dist, about["name"], about["version"], f"{python}-{python}-{MACHINE}", texts)


def glibc(path):
    """The newest version of the C library that a file needs, as (2, 34)."""
    text = subprocess.run(["objdump", "-T", path], check=True, capture_output=True, text=True).stdout
    return max(tuple(map(int, each.split("."))) for each in re.findall(r"GLIBC_([0-9.]+)", text))


def nvidia(library):
    """The packages of NVIDIA's libraries that it needs, the version of CUDA, and where they put the libraries, from site-packages."""
    text = subprocess.run(["objdump", "-p", library], check=True, capture_output=True, text=True).stdout
    major = re.search(r"NEEDED +libcublas\.so\.(\d+)", text)[1]
    if int(major) < 13:
        packages = [f"nvidia-{each}-cu{major}" for each in ("cublas", "cuda-nvrtc", "cudnn")]
        return packages, major, ["nvidia/cublas/lib", "nvidia/cuda_nvrtc/lib", "nvidia/cudnn/lib", "nvidia/nccl/lib"]
    limits = f">={major},<{int(major) + 1}"
    return ([f"nvidia-cublas{limits}", f"nvidia-cuda-nvrtc{limits}", f"nvidia-cudnn-cu{major}>=9"], major,
            [f"nvidia/cu{major}/lib", "nvidia/cudnn/lib", "nvidia/nccl/lib"])


def cuda_wheel(library, dist):
    about = project()
    packages, major, places = nvidia(library)
    with tempfile.TemporaryDirectory() as folder:
        target = os.path.join(folder, "mxnet", "lib", "libgluon_cuda.so")
        stripped(library, target)
        subprocess.run(["patchelf", "--set-rpath", ":".join("$ORIGIN/../../" + each for each in places), target], check=True)
        name, version = about["name"] + "-cuda", "_".join(map(str, glibc(target)[:2]))
        text = metadata(about, name, "The CUDA part of gluon-mxnet", [f"{about['name']}=={about['version']}"] + packages,
                        {"nccl": [f"nvidia-nccl-cu{major}"]})
        tag = f"py3-none-{MACHINE.replace('linux', 'manylinux_' + version)}"
        return pack(folder, dist, name, about["version"], tag, {"METADATA": text})


if __name__ == "__main__":
    arguments = sys.argv[1:]
    if len(arguments) == 3 and arguments[0] == "--cuda":
        made = cuda_wheel(arguments[1], arguments[2])
    elif len(arguments) == 2:
        made = main_wheel(*arguments)
    else:
        sys.exit(__doc__)
    print(f"{made} ({os.path.getsize(made) / 1e6:.1f} MB)")
