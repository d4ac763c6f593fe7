"""How `make docs` builds the site: Sphinx, the PyData theme, sphinx-gallery, MyST for the Markdown pages."""

import sys
import warnings
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "extensions"))

import eiv

project, author = "eiv", "The eiv developers"
project_copyright = author
version = release = eiv.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_gallery.gen_gallery",
    "api",
    "elsewhere",
    "mathml",
]
exclude_patterns = ["extensions", "gallery", "gallery_pages/*.ipynb"]
default_role = "py:obj"
language = "en"
toc_object_entries_show_parents = "hide"

# Docstrings
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
python_maximum_signature_line_length = 88
napoleon_google_docstring, napoleon_numpy_docstring = True, True  # scikit-learn's are of the second kind
napoleon_use_rtype, napoleon_use_ivar = False, True

# Markdown
myst_enable_extensions = ["dollarmath", "amsmath"]
myst_heading_anchors = 4
html_math_renderer = "mathml"
nb_execution_mode = "force"  # the notebook runs anew, and its outputs are those of this version
nb_execution_timeout = 300
nb_execution_raise_on_error = True

# Gallery
warnings.filterwarnings("error", module="eiv")
sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "gallery_pages",
    "within_subsection_order": "FileNameSortKey",
    "filename_pattern": r"\.py$",
    "abort_on_example_error": True,
    "write_computation_times": False,  # that page loads scripts from elsewhere
    "show_memory": False,
    "show_signature": False,
    "download_all_examples": False,
    "remove_config_comments": True,
    "image_srcset": ["2x"],
}

# HTML. Nothing is loaded from elsewhere: the theme brings its fonts and scripts, formulas are MathML.
html_theme = "pydata_sphinx_theme"
html_title = "eiv"
html_favicon = "_static/favicon.svg"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {
    "logo": {"text": "eiv"},
    "navbar_align": "left",
    "show_nav_level": 1,
    "show_toc_level": 2,
    "show_prev_next": True,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
}
html_context = {"default_mode": "auto"}  # light or dark as the reader's system
html_sidebars = {"index": []}
