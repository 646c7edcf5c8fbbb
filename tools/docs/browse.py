"""Uses the built site as a person would, in headless Chromium, from disk.

    browse.py build/site [FOLDER]     FOLDER: pictures of some pages, wide and narrow, light and dark, to be looked at

Pages load without complaints and fit narrow and wide screens; a search leads to an operator; a language that was chosen
in one set of tabs stays chosen on other pages; dark is dark.  Without Chromium it says so and succeeds.

SPDX-License-Identifier: Apache-2.0
"""
import shutil
import sys
from pathlib import Path

from chrome import Chrome

PAGES = ("index.html", "book/arrays.html", "book/attention.html", "guides/index.html", "guides/from_pytorch.html", "guides/deploying.html",
         "reference/operators/index.html", "reference/operators/Convolution.html", "reference/layers.html", "reference/c/array_h.html",
         "contributors.html")
SEARCHES = {"softmax": "reference/operators/softmax.html", "Convolution": "reference/operators/Convolution.html",
            "mx_array_from": "reference/c/index.html", "LayerNorm": "reference/operators/LayerNorm.html"}
SIZES = {"wide": (1440, 900, False), "narrow": (390, 844, True)}
SEARCH_BOX = "document.querySelector('.sidebar-search, input[name=q]')"
CHOSEN = "Array.from(document.querySelectorAll('.sd-tab-set > input:checked + label')).map(l => l.innerText.trim())"


def too_wide(chrome):
    """What sticks out of the page on the right, apart from what scrolls by itself."""
    return chrome.run("document.documentElement.scrollWidth - document.documentElement.clientWidth > 1")


def pages(chrome, site):
    for view, size in SIZES.items():
        chrome.size(*size)
        for page in PAGES:
            chrome.open(f"file://{site / page}")
            if not chrome.run("(document.querySelector('article')?.innerText.length || 0) > 200"):
                yield f"{page} has no text"
            if too_wide(chrome):
                yield f"{page} is wider than a {view} screen"
            lost = chrome.run("Array.from(document.images).filter(i => !i.complete || !i.naturalWidth).map(i => i.src).join(' ')")
            if lost:
                yield f"{page}: no image: {lost}"


def searches(chrome, site):
    """Types into the box of the landing page, chooses the result, arrives."""
    chrome.size(*SIZES["wide"])
    for word, target in SEARCHES.items():
        chrome.open(f"file://{site}/index.html")
        chrome.run(f"(() => {{ const box = {SEARCH_BOX}; box.value = '{word}'; box.form.submit(); }})()")
        link = f"document.querySelector('#search-results a[href*=\"{target}\"]')"
        if not chrome.until(f"!!{link}"):
            yield f"a search for {word} does not find {target}"
            continue
        chrome.run(f"{link}.click()")
        if not chrome.until(f"location.pathname.endsWith('{target}') && document.readyState == 'complete'"):
            yield f"the result of a search for {word} does not lead to {target}"
        elif word.lower() not in chrome.run("document.querySelector('article').innerText.toLowerCase()"):
            yield f"{target} does not speak of {word}"


def tabs(chrome, site):
    """C on one page is C on the next."""
    chrome.open(f"file://{site}/index.html")
    if set(chrome.run(CHOSEN)) != {"Python"}:
        yield f"the tabs of index.html begin with {chrome.run(CHOSEN)}"
    chrome.run("Array.from(document.querySelectorAll('.sd-tab-set > label')).find(l => l.innerText.trim() == 'C').click()")
    for page in ("index.html", "book/autograd.html", "guides/extending.html"):
        if page != "index.html":
            chrome.open(f"file://{site / page}")
        if not chrome.until(f"{CHOSEN}.every(name => name == 'C') && {CHOSEN}.length > 0"):
            yield f"{page}: C was chosen, its tabs show {chrome.run(CHOSEN)}"
    chrome.run("Array.from(document.querySelectorAll('.sd-tab-set > label')).find(l => l.innerText.trim() == 'Python').click()")
    if not chrome.until(f"{CHOSEN}.every(name => name == 'Python')"):
        yield "the tabs of a page do not switch together"


def buttons(chrome, site):
    """Listings have buttons that copy; a phone has a menu; dark is dark."""
    chrome.open(f"file://{site}/guides/first_hour_python.html")
    if not chrome.until("document.querySelectorAll('button.copybtn').length > 3"):
        yield "listings have no button that copies them"
    chrome.size(*SIZES["narrow"])
    chrome.open(f"file://{site}/index.html")
    chrome.run("document.querySelector('label[for=__navigation]').click()")
    if not chrome.until("document.querySelector('.sidebar-drawer').getBoundingClientRect().left >= 0"):
        yield "the menu does not open on a narrow screen"
    chrome.scheme("dark")
    chrome.open(f"file://{site}/index.html")
    shade = chrome.run("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).reduce((a, b) => a + +b, 0)")
    if shade > 200:
        yield f"a dark page is light: {shade} of 765"
    chrome.scheme("light")
    chrome.size(*SIZES["wide"])


def shoot(chrome, site, folder):
    folder.mkdir(parents=True, exist_ok=True)
    for view, (width, _, mobile) in SIZES.items():
        for scheme in ("light", "dark"):
            chrome.size(width, 1600, mobile)
            chrome.scheme(scheme)
            for page in PAGES:
                chrome.open(f"file://{site / page}")
                chrome.picture(folder / f"{page.replace('/', '_')[:-5]}_{view}_{scheme}.png")


def main():
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not browser:
        print("browse: no Chromium here (Debian package chromium): the site was not opened")
        return 0
    site = Path(sys.argv[1]).resolve()
    with Chrome(browser) as chrome:
        found = [*pages(chrome, site), *searches(chrome, site), *tabs(chrome, site), *buttons(chrome, site)]
        found += [f"the console says: {complaint}" for complaint in dict.fromkeys(chrome.complaints)]
        if len(sys.argv) > 2:
            shoot(chrome, site, Path(sys.argv[2]).resolve())
    print("\n".join(found[:20]) if found else f"browse: {len(PAGES)} pages on {len(SIZES)} screens, {len(SEARCHES)} searches, tabs and "
          "buttons are fine")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
