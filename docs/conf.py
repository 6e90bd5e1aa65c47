"""How Sphinx builds the docs: Markdown only, no network, every warning an error (make docs)."""

from shunter import __version__

project = "Shunter"
author = "Shunter contributors"
copyright = author
version = release = __version__

extensions = ["myst_parser"]
myst_enable_extensions = ["colon_fence", "deflist", "tasklist"]
# Headings can be linked to as page.md#heading; a link to none is a warning, hence an error.
myst_heading_anchors = 3
# Records of older decisions; decisions/README.md says on which page each of them holds now.
exclude_patterns = ["decisions/archive"]
# Each section's index lists the pages of its folder by itself: a new page needs no entry anywhere.

html_theme = "furo"
html_title = f"Shunter {release}"
html_copy_source = False
html_show_sphinx = False
html_show_sourcelink = False
