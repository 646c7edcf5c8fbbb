"""The C statements of a page as one program: its listings become the body of main, in order.

SPDX-License-Identifier: Apache-2.0
"""
import subprocess

MARK = "\x1e"  # printed after every listing; separates their outputs
COMPILE = "cc -std=gnu11 -Wall -Wextra -Werror -O1 statements.c -o statements $(pkg-config --cflags --libs gluon) -lm"
HEAD = "#include <gluon.h>\n#include <math.h>\n#include <stdio.h>\n#include <string.h>\n"


class Wrong(Exception):
    """A program that does not compile or fails."""


def source(listings, texts, page):
    """The program; the compiler reports lines of the page."""
    parts = [HEAD]
    for top in (True, False):
        if not top:
            parts.append("int main(void)\n{")
        for listing, text in zip(listings, texts):
            if ("top" in listing.words) == top:
                parts.append(f'#line {listing.first} "{page}"\n{text}')
            if not top:
                parts.append(f'printf("{MARK}"), fflush(stdout);')
    return "\n".join(parts) + f'\nreturn mx_check("{page}");\n}}\n'


def run(listings, texts, page, folder, environment, timeout):
    """What each listing prints."""
    (folder / "statements.c").write_text(source(listings, texts, page))
    for command in (COMPILE, "./statements"):
        done = subprocess.run(["sh", "-c", command], cwd=folder, env=environment, text=True, timeout=timeout,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if done.returncode:
            raise Wrong(f"{command}: exit status {done.returncode}\n{done.stderr}{done.stdout}")
    return done.stdout.split(MARK)[:-1]
