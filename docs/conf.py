"""How the documentation is built: ``sphinx-build -W -b html docs docs/_build/html``."""

import importlib
import re
import sys
from pathlib import Path

from sphinx import addnodes

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "figures"))
if importlib.util.find_spec("fastsbl") is None:  # not installed: document the sources beside this folder
    sys.path.insert(0, str(HERE.parent / "src"))

import classification  # noqa: E402
import outer_loop  # noqa: E402
import phase_transition  # noqa: E402
import point_sources  # noqa: E402
import profiles  # noqa: E402
import screening_regions  # noqa: E402

import fastsbl  # noqa: E402

for picture in (classification, outer_loop, phase_transition, point_sources, profiles, screening_regions):
    picture.main(HERE / "figures")

project = "fastsbl"
author = "the fastsbl developers"
copyright = author
version = release = fastsbl.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinx_gallery.gen_gallery",
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "_templates", "**/*.ipynb", "**/*.py"]
default_role = "py:obj"  # single backquotes in docstrings name Python objects

myst_enable_extensions = ["amsmath", "attrs_block", "attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

autosummary_generate = True
autosummary_ignore_module_all = False  # a module's page lists what its __all__ names, and nothing else
autosummary_imported_members = True
autodoc_typehints = "none"  # the docstrings give the types, with shapes
autodoc_member_order = "bysource"
suppress_warnings = ["ref.python"]  # a word such as `.fit` in a docstring may match several methods
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True  # attributes are listed once, where the docstring describes them

sphinx_gallery_conf = {
    "examples_dirs": str(HERE.parent / "examples"),
    "gallery_dirs": "auto_examples",
    "abort_on_example_error": True,
    "show_memory": False,
    "min_reported_time": 1e9,
    "remove_config_comments": True,
}

html_theme = "pydata_sphinx_theme"
html_title = "fastsbl"
html_static_path = ["_static"]
html_css_files = ["fastsbl.css"]
html_show_sourcelink = False
html_theme_options = {
    "show_prev_next": True,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
}
html_sidebars = {
    page: []
    for page in ("changelog", "cli", "errata", "extend", "get_started", "glossary", "mathematics", "measurements")
}


def _skip_members(app, what, name, obj, skip, options):
    """Leave out "Alias for field number 0" and its like, and what scikit-learn adds for metadata routing."""
    if type(obj).__name__ == "_tuplegetter" or name == "get_metadata_routing":
        return True
    return True if name.startswith("set_") and name.endswith("_request") else skip


def _keep_underscores(app, what, name, obj, options, lines):
    """Escape the underscore at the end of a fitted attribute's name, which would be read as a link."""
    for i, line in enumerate(lines):
        if line.startswith((":ivar ", ":vartype ")):
            role, names, text = re.match(r"(:\w+ )([^:]*)(.*)", line, re.DOTALL).groups()
            lines[i] = role + re.sub(r"(?<!\\)_(?=,|$)", r"\\_", names) + text


def _unlink_inherited(app, what, name, obj, options, lines):
    """Print links to pages of scikit-learn's guide, in docstrings that come from there, as their words."""
    for i, line in enumerate(lines):
        lines[i] = re.sub(r":ref:`([^<`]+?)\s*(?:<[^>]*>)?`", r"\1", line)


def _unlink_shapes(app, doctree):
    """Print the words in a type as words: the n_features in a shape is not the property of some class."""
    for node in list(doctree.findall(addnodes.pending_xref)):
        in_a_type = node.children and isinstance(node.children[0], addnodes.literal_emphasis)
        if in_a_type and node["reftarget"].rpartition(".")[2].islower():
            node.replace_self(node.children)


def setup(app):
    """Connect what is special to this project."""
    app.connect("autodoc-skip-member", _skip_members)
    app.connect("autodoc-process-docstring", _keep_underscores, priority=600)  # after napoleon
    app.connect("autodoc-process-docstring", _unlink_inherited)
    app.connect("doctree-read", _unlink_shapes)
