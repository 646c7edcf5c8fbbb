"""The site: how Sphinx reads the pages.  tools/docs/site.py prepares them and starts it.

SPDX-License-Identifier: Apache-2.0
"""
import os
import sys
from pathlib import Path

sys.path.insert(0, os.environ.get("GLUON_DOCS_TOOLS", str(Path(__file__).resolve().parents[1] / "tools" / "docs")))

project = "Gluon"
version = release = os.environ.get("GLUON_VERSION", "0.1.0")
copyright = "the Gluon authors, Apache-2.0"

extensions = ["myst_parser", "sphinx_design", "sphinx_copybutton", "sphinx_gluon"]
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist", "attrs_inline", "attrs_block"]
myst_heading_anchors = 3
myst_links_external_new_tab = False
source_suffix = {".md": "markdown"}
exclude_patterns = ["_static"]
highlight_language = "none"
suppress_warnings = ["myst.header", "misc.highlighting_failure", "toc.not_included"]
copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = True
copybutton_remove_prompts = True
copybutton_selector = "div.highlight-python pre, div.highlight-c pre, div.highlight-console pre"

html_theme = "furo"
html_title = f"Gluon {version}"
html_static_path = ["_static"]
html_css_files = ["gluon.css"]
html_math_renderer = "mathml"
html_copy_source = False
html_show_sourcelink = False
html_show_search_summary = False  # it would fetch pages, which browsers do not allow for files
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#1f5fa8", "color-brand-content": "#1f5fa8",
                            "font-stack": "system-ui, -apple-system, 'Segoe UI', 'Noto Sans', sans-serif",
                            "font-stack--monospace": "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace"},
    "dark_css_variables": {"color-brand-primary": "#7db4f0", "color-brand-content": "#7db4f0"},
}
