"""Settings of Sphinx for the site: Markdown pages, fonts of the system, nothing that asks a network."""

from memplace_env import __version__

project = "MemPlace"
author = copyright = "The MemPlace developers"
version = release = __version__
extensions = ["myst_parser"]
myst_heading_anchors = 4
highlight_language = "none"
smartquotes = False  # flags begin with two hyphens
html_theme = "furo"
html_title = f"MemPlace {__version__}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = [("sort.js", {"defer": "defer"})]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#00558c", "color-brand-content": "#00558c"},
    "dark_css_variables": {"color-brand-primary": "#7cc4f0", "color-brand-content": "#7cc4f0"},
}
pygments_style, pygments_dark_style = "default", "github-dark"
