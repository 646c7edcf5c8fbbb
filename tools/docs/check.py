"""Checks a built site: links and images lead somewhere, nothing is fetched from elsewhere, words are spelt right.

    check.py build/site

SPDX-License-Identifier: Apache-2.0
"""
import re
import subprocess
import sys
import urllib.parse
from html.parser import HTMLParser
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LOADED = {"script": "src", "img": "src", "link": "href", "iframe": "src"}


class Links(HTMLParser):
    """What a page points to and the anchors that it has."""

    def __init__(self, text):
        super().__init__()
        self.targets, self.loaded, self.anchors = [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.anchors.update(filter(None, (attrs.get("id"), attrs.get("name"))))
        if tag == "a" and attrs.get("href"):
            self.targets.append(attrs["href"])
        elif tag in LOADED and attrs.get(LOADED[tag]) and attrs.get("rel") != "canonical":
            self.loaded.append(attrs[LOADED[tag]])


def broken(site):
    """Sentences about links that lead nowhere and about files of other machines."""
    pages = {path.resolve(): Links(path.read_text(errors="replace")) for path in site.rglob("*.html")}
    for path, page in pages.items():
        name = path.relative_to(site.resolve())
        for target in page.targets + page.loaded:
            parts = urllib.parse.urlsplit(target)
            if parts.scheme or parts.netloc:
                if target in page.loaded and parts.scheme != "data":
                    yield f"{name} loads {target}"
                continue
            file = (path.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else path
            if not file.exists():
                yield f"{name}: {target} does not exist"
            elif parts.fragment and file in pages and urllib.parse.unquote(parts.fragment) not in pages[file].anchors:
                yield f"{name}: {target} has no such anchor"


def spelling():
    """Misspelt words in what we wrote."""
    pages = [str(p) for p in [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md"]]
    words = ROOT / "docs/words.txt"
    done = subprocess.run([sys.executable, "-m", "codespell_lib", "-I", str(words), *pages], capture_output=True, text=True)
    return done.stdout.splitlines()


def style():
    """Words that we do not use, and lines that no editor shows whole."""
    for path in (ROOT / "docs").rglob("*.md"):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            found = re.search(r"\b(utilize|in order to|leverage|simply put|please note|very unique)\b", line, re.I)
            if found:
                yield f"{path.relative_to(ROOT)}:{number}: say it plainly: '{found[0]}'"


def paths():
    """Files of the source that pages name must be there; a page may make them itself."""
    for path in [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]:
        text = path.read_text()
        made = set(re.findall(r"^```\w+ file=(\S+)", text, flags=re.M))
        for name in re.findall(r"`((?:src|include|python|tests|tools|examples|bench|cli|cmake|docs)/[a-z0-9_/.]*[a-z0-9])`", text):
            if not (ROOT / name).exists() and name not in made:
                yield f"{path.relative_to(ROOT)}: there is no {name}"


def main():
    site = Path(sys.argv[1])
    problems = [*broken(site), *spelling(), *style(), *paths()]
    print("\n".join(problems) if problems else f"check: {sum(1 for _ in site.rglob('*.html'))} pages, links and words are fine")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
