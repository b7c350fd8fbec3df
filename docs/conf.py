"""Sphinx builds the site from these pages, and the reference from the docstrings: `nox -s docs`."""

from __future__ import annotations

import sys
from importlib.metadata import version as installed_version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

project = "sglang-platform"
author = "the sglang-platform authors"
project_copyright = author
release = version = installed_version("sglang-platform-core")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode", "sphinx_copybutton", "_generated"]
exclude_patterns = ["examples", "_generated.py"]
source_suffix = {".md": "markdown"}
nitpicky = False

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
myst_links_external_new_tab = False

default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_default_options = {"members": True, "show-inheritance": True}
python_maximum_signature_line_length = 80

html_theme = "furo"
html_title = f"sglang-platform {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False
html_theme_options = {
    "source_repository": "https://github.com/sglang-platform/sglang-platform/",
    "source_branch": "main",
    "source_directory": "docs/",
}

linkcheck_ignore = [r"https://github\.com/sglang-platform/.*"]
linkcheck_timeout = 15
linkcheck_retries = 2
