"""Settings of the documentation site; `make docs` builds it without a network, and a warning fails the build."""

import sys
from pathlib import Path

from cutline import __version__

sys.path.insert(0, str(Path(__file__).parent))  # for the directives beside this file

project = "Cutline"
author = "The Cutline engineers"
project_copyright = author
release = version = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "site_directives"]
myst_heading_anchors = 4  # pages link to headings as they do on a code host

default_role = "py:obj"  # docstrings write names in single backticks
highlight_language = "text"
autodoc_typehints = "none"  # what a parameter is, its description says
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False
add_module_names = False
python_use_unqualified_type_names = True
toc_object_entries = False  # hundreds of them would be copied into every page's navigation

html_theme = "furo"
html_title = "Cutline"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_search_summary = False  # a page opened from a disk may not read others
html_theme_options = {"navigation_with_keys": True}
