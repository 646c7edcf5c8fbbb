"""Copies of a package's shared libraries in which CPUID is an invalid instruction, for CPUs that cannot make it fault.

    trap_cpuid.py SITE_PACKAGES COPY

hide_avx512.c answers the trap.  The disassembler finds the instructions: the same two bytes also occur inside others.

SPDX-License-Identifier: Apache-2.0
"""
import os
import re
import shutil
import struct
import subprocess
import sys

CPUID, INVALID = b"\x0f\xa2", b"\x0f\x0b"


def segments(data):
    """(address, offset, length) of what an ELF file for 64 bits has loaded."""
    table, = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    for at in range(table, table + size * count, size):
        kind, _, offset, address, _, length = struct.unpack_from("<IIQQQQ", data, at)
        if kind == 1:
            yield address, offset, length


def addresses(path):
    """Where the instruction stands."""
    listing = subprocess.Popen(["objdump", "-d", "--no-show-raw-insn", path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    found = subprocess.run(["grep", "-w", "cpuid"], stdin=listing.stdout, stdout=subprocess.PIPE, text=True).stdout
    return [int(match, 16) for match in re.findall(r"^\s*([0-9a-f]+):\s+cpuid", found, re.M)]


def trap(path):
    """Changes the file; returns how many instructions there were."""
    with open(path, "rb") as file:
        data = bytearray(file.read())
    if data[:5] != b"\x7fELF\x02" or CPUID not in data:
        return 0
    places = addresses(path)
    for address in places:
        start, offset, _ = next(s for s in segments(data) if s[0] <= address < s[0] + s[2])
        at = address - start + offset
        assert data[at:at + 2] == CPUID, f"{path}: no CPUID at {address:x}"
        data[at:at + 2] = INVALID
    if places:
        os.unlink(path)  # the original has the same file
        with open(path, "wb") as file:
            file.write(data)
    return len(places)


def copy(packages, folder):
    """The packages, every shared library changed but those of GPUs; a finished copy is used again."""
    if os.path.exists(folder):
        return
    shutil.rmtree(folder + ".new", ignore_errors=True)
    shutil.copytree(packages, folder + ".new", symlinks=True, copy_function=os.link)
    for path, _, names in os.walk(folder + ".new"):
        if os.sep + "nvidia" in path:
            continue
        for name in names:
            if re.search(r"\.so(\.\d+)*$", name) and trap(os.path.join(path, name)):
                print(f"trapped: {name}", flush=True)
    os.rename(folder + ".new", folder)


if __name__ == "__main__":
    copy(*sys.argv[1:])
