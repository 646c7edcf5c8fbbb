"""What the documentation promises and a test can see without building it: idioms, walk-throughs, examples, names of files."""
import sys
from pathlib import Path

import pytest

import mxnet as mx

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "docs"))

import check  # noqa: E402
import compare  # noqa: E402
import examples  # noqa: E402
import names  # noqa: E402
import page as pages  # noqa: E402
import reference_ops  # noqa: E402
import walkthroughs  # noqa: E402


@pytest.mark.parametrize("guide", ["from_pytorch", "from_keras"])
def test_guides_have_sixty_idioms(guide):
    lines = (ROOT / f"docs/guides/{guide}.md").read_text().splitlines()
    found = list(pages.idioms(lines))
    assert len(found) >= 60
    for one in found:
        compile(one.text, f"{guide}.md:{one.first}", "exec")


def test_walkthroughs_fit_the_source():
    """Their changes can be made: the lines that they build on are there, once, and the files that they add are not."""
    files = walkthroughs.copy_source(None)
    before = dict(files)
    for path in sorted((ROOT / "docs/walkthroughs").glob("*.md")):
        walkthroughs.apply(path, files)
    assert {name for name in files if files[name] != before.get(name)} >= {"src/pass/pipeline.c", "src/pass/squares.c"}


def test_a_change_names_what_it_misses():
    assert walkthroughs.changed("a\nb (1)\nc", " b ...\n+x", "here") == "a\nb (1)\nx\nc"
    assert walkthroughs.changed("a\nb", "+x\n b", "here") == "a\nx\nb"
    for text in ("a", "b\nb"):
        with pytest.raises(walkthroughs.Failure, match="here"):
            walkthroughs.changed(text, " b\n+x", "here")


def test_every_operator_has_an_example():
    if mx.current_context().device_type == "gpu":
        pytest.skip("the site is built on the CPU")
    found = reference_ops.operators()
    made = {name: examples.example(op, described, reference_ops.python_path(described)) for name, (op, described) in found.items()}
    assert not [name for name, one in made.items() if not one.lines or not one.output]
    numbers = [name for name, one in made.items() if not one.lines[-1].endswith((".shape", "]"))]
    assert len(numbers) > 0.95 * len(made)


def test_files_that_pages_name_exist():
    assert list(check.paths()) == []


def test_headers_declare_what_is_counted(tmp_path):
    (tmp_path / "gluon").mkdir()
    (tmp_path / "gluon.h").write_text("#define MX_ONE 1\n/* mx_not_this(void); */\n")
    (tmp_path / "gluon" / "a.h").write_text("typedef struct mx_thing mx_thing;\nMX_API int mx_do(mx_thing *x);\n#define MX_INNER_(x) x\n"
                                            "typedef enum mx_kind {\n    MX_RED,\n    MX_BLUE = 3,\n} mx_kind;\n")
    assert names.c_names(tmp_path) == {"MX_ONE", "mx_thing", "mx_do", "mx_kind", "MX_RED", "MX_BLUE"}


def test_numbers_may_differ_a_little_and_text_may_not():
    assert compare.difference("loss 0.512", "loss 0.513") is None
    assert "0.600" in compare.difference("loss 0.512", "loss 0.600")
    assert compare.difference("loss 1", "lost 1") == "the text differs"
    assert compare.difference("step 3", "step 4")
