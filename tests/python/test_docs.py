"""The documentation: the runner finds stale pages, the reference has a page for every name, all pages are listed."""
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import mxnet

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(mxnet.__file__).resolve().parents[2]  # has include/ and lib/ beside python/
sys.path.insert(0, str(ROOT / "tools/docs"))

import compare  # noqa: E402
import notebooks  # noqa: E402
import page as pages  # noqa: E402

BOTH = """# Page

```python
import mxnet as mx
x = mx.nd.arange(3)
epochs = 5  # quick: 2
for epoch in range(epochs):
    print(f"epoch {epoch}")
int(x.sum().asscalar())
```

```output
epoch 0
epoch 1
epoch 2
epoch 3
epoch 4
3
```
"""


def run(tmp_path, text, *options):
    path = tmp_path / "page.md"
    path.write_text(text)
    done = subprocess.run([sys.executable, str(ROOT / "tools/docs/run.py"), "--work", str(tmp_path / "work"), "--prefix",
                           str(tmp_path), *options, str(path)], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr, path.read_text()


@pytest.mark.parametrize("options", [(), ("--quick",)], ids=["full", "quick"])
def test_a_page_that_is_true_passes(tmp_path, options):
    code, said, _ = run(tmp_path, BOTH, *options)
    assert code == 0, said


@pytest.mark.parametrize("old, new", [("\n3\n", "\n4\n"), ("epoch 4\n", "round 4\n"),
                                      ("x.sum()", "x.missing()"), ("```output\n", "```text\n")],
                         ids=["number", "text", "exception", "output not shown"])
def test_a_stale_page_fails(tmp_path, old, new):
    code, said, _ = run(tmp_path, BOTH.replace(old, new))
    assert code == 1 and "page.md:" in said, said


def test_quick_runs_compare_the_form(tmp_path):
    assert run(tmp_path, BOTH.replace("epoch 3\n", ""), "--quick")[0] == 0
    assert run(tmp_path, BOTH.replace("epoch {epoch}", "round {epoch}"), "--quick")[0] == 1


def test_update_writes_outputs_and_figures(tmp_path):
    text = '# Page\n\n```python\nimport draw\ndraw.chart("figures/line.svg", lines={"y": [1, 2, 4]})\nprint(6 * 7)\n```\n\n' \
           "![line](figures/line.svg)\n"
    code, said, new = run(tmp_path, text, "--update")
    assert code == 0, said
    assert "```output\n42\n```" in new
    assert (tmp_path / "figures/line.svg").read_text().count("<polyline") == 1
    code, said, _ = run(tmp_path, new)
    assert code == 0, said


def test_listings_that_raise_and_commands(tmp_path):
    text = "# Page\n\n```python raises\n1 / 0\n```\n\n```output\nZeroDivisionError: division by zero\n```\n\n" \
           "```console\n$ echo one two\none two\n```\n"
    assert run(tmp_path, text)[0] == 0
    assert run(tmp_path, text.replace("one two\n```", "one three\n```"))[0] == 1
    assert run(tmp_path, text.replace("1 / 0", "1 / 1"))[0] == 1


def test_tables_of_idioms_are_run(tmp_path):
    text = "# Page\n\n| other | Gluon |\n|---|---|\n| `x` | `x = [1] \\| [2] if False else [1]`; `y = x[0]` |\n| `y` | `assert y == 1` |\n"
    assert run(tmp_path, text)[0] == 0
    assert run(tmp_path, text.replace("y == 1", "y == 2"))[0] == 1


@pytest.mark.parametrize("wanted, got, same", [("a 0.512", "a 0.513", True), ("a 0.512", "a 0.530", False), ("a 5", "a 6", False),
                                               ("x  1.50 y", "x 1.5 y", True), ("1e-5", "1.004e-5", True), ("a 1", "b 1", False)])
def test_numbers_may_differ_a_little(wanted, got, same):
    assert (compare.difference(wanted, got) is None) == same


def test_python_and_c_become_tabs():
    text = "```python\n1\n```\n\n```output\n1\n```\n\n```c top\nint f;\n```\n\n```c\nf = 1;\n```\n\ntext\n\n```c\nf = 2;\n```\n"
    shown = pages.without_quick(pages.with_tabs(text))
    assert shown.count("{tab-item}") == 2 and shown.index("f = 1;") < shown.index("::::\n", 10) < shown.index("f = 2;")
    assert "top" not in shown


def test_notebooks_hold_the_listings():
    book = json.loads(notebooks.notebook(BOTH))
    code = [cell for cell in book["cells"] if cell["cell_type"] == "code"]
    assert len(code) == 1 and "# quick" not in code[0]["source"] and code[0]["outputs"][0]["text"].startswith("epoch 0")


def test_notebooks_write_files_and_run_commands():
    page = BOTH + "\n```c file=net.c\nint main(void) { return 0; }\n```\n\n```console\n$ cc net.c && ./a.out && echo fine  # quick: true\nfine\n```\n" \
        "\n```c\nmx_random_seed(1);\n```\n\n```python shown\nnet.initialize(ctx=mx.gpu(0))\n```\n"
    cells = json.loads(notebooks.notebook(page))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert [cell["source"] for cell in code[1:]] == ["%%writefile net.c\nint main(void) { return 0; }", "!cc net.c && ./a.out && echo fine"]
    assert code[2]["outputs"][0]["text"] == "fine\n"
    assert not any(cell["metadata"] for cell in code)
    assert "mx_random_seed(1);" in cells[-1]["source"] and "mx.gpu(0)" in cells[-1]["source"]


def test_every_chapter_is_a_notebook():
    for path in (ROOT / "docs/book").glob("*.md"):
        if path.stem == "index":
            continue
        book = json.loads(notebooks.notebook(path.read_text()))
        code = [cell for cell in book["cells"] if cell["cell_type"] == "code"]
        assert len(code) > 4 and len({cell["id"] for cell in book["cells"]}) == len(book["cells"]), path.name
        for cell in code:
            if not cell["source"].startswith(("%%", "!")):
                compile(cell["source"], path.name, "exec")
            assert ":::" not in cell["source"] and "# quick:" not in cell["source"], path.name


def test_listings_that_need_what_is_missing_are_left_out(tmp_path):
    """There is no library below tmp_path, so there is no MPI part of it."""
    page = "# Page\n\n```console needs=mpi\n$ false\nas it was\n```\n"
    for options in ((), ("--update",)):
        code, said, text = run(tmp_path, page, *options)
        assert code == 0 and "without mpi" in said and text == page
    cells = json.loads(notebooks.notebook(BOTH + page))["cells"]
    assert cells[-1]["metadata"] == {"tags": ["raises-exception"]}  # a notebook goes on without it, too


@pytest.mark.parametrize("folder", ["book", "guides"])
def test_every_page_is_listed(folder):
    index = (ROOT / "docs" / folder / "index.md").read_text()
    for path in (ROOT / "docs" / folder).glob("*.md"):
        assert path.stem == "index" or re.search(rf"^{path.stem}$", index, re.M), f"{path.name} is missing in the index"


def test_every_figure_belongs_to_a_page():
    used = {figure for path in (ROOT / "docs/book").glob("*.md") for figure in pages.figures(path.read_text())}
    stored = {f"figures/{path.name}" for path in (ROOT / "docs/book/figures").glob("*.svg")}
    assert stored == used


def test_every_operator_has_a_page(tmp_path):
    import reference_ops
    reference_ops.write(tmp_path / "operators", ROOT, BUILD)
    found = reference_ops.operators()
    assert {path.stem for path in (tmp_path / "operators").glob("*.md")} == {*found, "index"}
    examples = 0
    for name, (_, described) in found.items():
        text = (tmp_path / "operators" / f"{name}.md").read_text()
        assert f"mx_{described['c_name']}(" in text and "## Gradient" in text
        assert all(f"| `{a['name']}` |" in text for a in described["attributes"])
        examples += "## Example" in text
    assert examples > len(found) / 2


def test_every_c_function_has_an_entry(tmp_path):
    import reference_c
    reference_c.write(tmp_path / "c", ROOT / "include")
    index = (tmp_path / "c/index.md").read_text()
    declared = {name for path in (ROOT / "include/gluon").glob("*.h") for name in re.findall(r"\b(mx_\w+)\(", "\n".join(
        line for line in path.read_text().splitlines() if line.startswith("MX_API")))}
    missing = [name for name in declared if f"`{name}`" not in index]
    assert not missing, missing


def test_every_described_class_has_an_entry(tmp_path):
    import reference_classes
    from mxnet import _core
    reference_classes.write(tmp_path, BUILD / "include")
    text = "".join(path.read_text() for path in tmp_path.glob("*.md"))
    for kind in ("LOSS", "OPTIMIZER", "LR_SCHEDULER", "METRIC", "INITIALIZER"):
        for row in _core.class_rows(getattr(_core, kind)):
            assert f"## {row[0]}\n" in text, row[0]
