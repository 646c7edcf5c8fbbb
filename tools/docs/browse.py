"""Opens the built site in headless Chromium, from disk: pages load without console errors, search finds operators.

    browse.py build/site [FOLDER]     FOLDER: screenshots of some pages, wide and narrow, light and dark, to be looked at

Without Chromium it says so and succeeds.

SPDX-License-Identifier: Apache-2.0
"""
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PAGES = ("index.html", "book/arrays.html", "book/attention.html", "guides/from_pytorch.html", "reference/operators/Convolution.html",
         "reference/c/array_h.html")
SEARCHES = {"softmax": "reference/operators/softmax.html", "Convolution": "reference/operators/Convolution.html",
            "mx_array_from": "reference/c/index.html"}
VIEWS = {"wide": ["--window-size=1440,1800"], "narrow": ["--window-size=420,1800"],
         "dark": ["--window-size=1440,1800", "--force-dark-mode", "--blink-settings=preferredColorScheme=0"]}


def chromium(*arguments):
    """(what it prints, lines of its console)"""
    with tempfile.TemporaryDirectory() as profile:
        done = subprocess.run([BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--enable-logging=stderr",
                               "--v=0", f"--user-data-dir={profile}", "--virtual-time-budget=8000", *arguments],
                              capture_output=True, text=True, timeout=120)
    return done.stdout, [line for line in done.stderr.splitlines() if ":CONSOLE" in line]


def problems(site):
    for page in PAGES:
        text, console = chromium("--dump-dom", f"file://{site / page}")
        yield from (f"{page}: {line}" for line in console)
        if "<article" not in text:
            yield f"{page} has no text"
    for word, target in SEARCHES.items():
        text, console = chromium("--dump-dom", f"file://{site}/search.html?q={word}")
        yield from (f"search for {word}: {line}" for line in console)
        if not re.search(rf'href="[^"]*{re.escape(target)}', text):
            yield f"a search for {word} does not find {target}"


def shoot(site, folder):
    folder.mkdir(parents=True, exist_ok=True)
    for page in PAGES:
        for view, options in VIEWS.items():
            name = page.replace("/", "_").replace(".html", f"_{view}.png")
            chromium(*options, f"--screenshot={folder / name}", f"file://{site / page}")


BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
if __name__ == "__main__":
    if not BROWSER:
        print("browse: no Chromium here (Debian package chromium): the site was not opened")
        sys.exit(0)
    folder = Path(sys.argv[1]).resolve()
    found = list(problems(folder))
    if len(sys.argv) > 2:
        shoot(folder, Path(sys.argv[2]).resolve())
    print("\n".join(found[:20]) if found else f"browse: {len(PAGES)} pages and {len(SEARCHES)} searches are fine")
    sys.exit(bool(found))
