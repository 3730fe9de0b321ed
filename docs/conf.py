"""Configuration of Sphinx for the site, which ``make docs`` builds.

The source directory is the root of the repository: a relative link then means the same on the
site and on the forge. Sphinx rather than MkDocs, because its strict mode also checks anchors and
the references in docstrings, and because MkDocs 1 and its Material theme are only maintained now,
while what follows them is still changing.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docutils import nodes
from sphinx.util.logging import getLogger

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import zarr_manifest  # noqa: E402

if TYPE_CHECKING:
    from docutils.nodes import Element, document
    from sphinx.addnodes import pending_xref
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

project = "zarr-manifest"
author = "The zarr-manifest developers"
release = version = zarr_manifest.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
]

root_doc = "README"
include_patterns = [
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "docs/**",
    "specs/**",
    "conformance/README.md",
    "conformance/IMPLEMENTING.md",
    "conformance/adapters/javascript/README.md",
]
exclude_patterns = [".*", "docs-output", "**/node_modules", "conformance/cases", "zarr_manifest"]

# Every reference in a docstring has to lead somewhere.
nitpicky = True
nitpick_ignore_regex = [
    ("py:class", r"concurrent\.futures\..*"),
    ("py:attr", ".*"),  # fields of dataclasses have no place of their own
]

myst_heading_anchors = 4

autodoc_member_order = "groupwise"
# The types are in the Parameters section, in words.
autodoc_typehints = "none"
autodoc_preserve_defaults = True
autosummary_generate = False
numpydoc_show_class_members = False

html_theme = "furo"
html_title = f"zarr-manifest {release}"
html_additional_pages = {"index": "landing.html"}
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_show_copyright = False
templates_path = ["templates"]

#: Modules whose public names are documented, all of them.
DOCUMENTED = ["zarr_manifest", "zarr_manifest.errors", "zarr_manifest.conversion"]

#: The page of which each section folds, down to the third level.
FOLDED = "docs/errors"

#: Where the README's first screen ends.
_END_OF_FIRST_SCREEN = '<div class="table-wrapper'

#: The page of which the pages beside and below it are sections.
UPSTREAM = "docs/upstream/README"

LOGGER = getLogger(__name__)

#: The navigation, as toctrees: directives of Sphinx have no place in a page that the forge shows.
NAVIGATION = {
    "Tasks": [
        "netcdf",
        "kerchunk",
        "zarr2",
        "upgrading",
        "models",
        "authoring",
        "enable",
        "browser",
        "access",
        "archive",
        "fast",
        "errors",
        "limits",
        "security",
    ],
    "Python": [
        "reference/index",
        "reference/zarr_manifest",
        "reference/errors",
        "reference/conversion",
    ],
    "Format": [
        "/specs/chunk-manifest-json/README",
        "/specs/chunk-manifest-json/features",
        "/specs/chunk-manifest-json/reading-safely",
        "/specs/chunk-manifest-json/transports",
        "/specs/chunk-manifest-json/errors",
        "/specs/chunk-manifest-json/examples/README",
        "/conformance/IMPLEMENTING",
        "/conformance/README",
        "/conformance/adapters/javascript/README",
    ],
    "Project": [
        "/CONTRIBUTING",
        "vocabulary",
        "architecture",
        "performance",
        "upstream/README",
        "/CHANGELOG",
    ],
}


def add_navigation(app: Sphinx, docname: str, source: list[str]) -> None:
    """Append the toctrees to the first page."""
    if docname != root_doc:
        return
    for caption, pages in NAVIGATION.items():
        names = "\n".join(f"/{full_name(page)}" for page in pages)
        source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{names}\n```\n"


def add_sections(app: Sphinx, docname: str, source: list[str]) -> None:
    """Append the pages below the one on other projects to it."""
    if docname == UPSTREAM:
        source[0] += "\n```{toctree}\n:hidden:\n:glob:\n\n*/README\nzarrs\n```\n"


def add_names(app: Sphinx, docname: str, source: list[str]) -> None:
    """List the public names of each module in the index of the reference."""
    if docname != "docs/reference/index":
        return
    for module in DOCUMENTED:
        names = sorted(importlib.import_module(module).__all__)
        listed = "\n".join(f"   {name}" for name in names)
        title = f"{module}\n{'-' * len(module)}"
        directives = f".. currentmodule:: {module}\n\n.. autosummary::\n   :nosignatures:\n"
        source[0] += f"\n{title}\n\n{directives}\n{listed}\n"


def fold_sections(app: Sphinx, doctree: document, docname: str) -> None:
    """Let each section fold, and let a link to it open it.

    A browser opens what folds around the target of a link. So the names of a section move into it.
    """
    if docname != FOLDED or app.builder.format != "html":
        return
    for section in doctree.findall(nodes.section):
        if isinstance(section.parent, nodes.document):
            continue
        names = "".join(f'<span id="{name}"></span>' for name in section["ids"])
        section["ids"] = [f"section-{section['ids'][0]}"]
        title, *content = section.children
        section.children = []
        section += _html("<details><summary>")
        section += title
        section += _html(f'</summary><div class="folded">{names}')
        section += [*content, _html("</div></details>")]


def _html(text: str) -> nodes.raw:
    return nodes.raw("", text, format="html")


def lead_in(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: document | None
) -> None:
    """Give the landing page the README's first screen, and a way to each page."""
    if pagename == root_doc:
        screen, end, _ = context["body"].partition(_END_OF_FIRST_SCREEN)
        if not end:
            LOGGER.warning("the README has no table after its first screen")
        app.config.html_context["first_screen"] = f"{screen}</section>"
    elif pagename == "index":
        context["first_screen"] = app.config.html_context["first_screen"]
        context["ways"] = {
            caption: [(page, app.env.titles[page].astext()) for page in map(full_name, pages)]
            for caption, pages in NAVIGATION.items()
        }


def full_name(page: str) -> str:
    """Return a page of the navigation by its path in the repository."""
    return page.removeprefix("/") if page.startswith("/") else f"docs/{page}"


def open_directories(app: Sphinx, docname: str, source: list[str]) -> None:
    """Let a link to a directory lead to its README, as it does on the forge."""
    source[0] = re.sub(r"\]\(([^)#:]+/)\)", r"](\1README.md)", source[0])


def skip_field(
    app: Sphinx, what: str, name: str, value: object, skip: bool, options: object
) -> bool | None:
    """Leave out the fields of a dataclass: its Parameters section describes them."""
    described = inspect.isroutine(value) or isinstance(value, property | cached_property)
    return True if what == "class" and not described else None


def find_public_name(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, content: Element
) -> Element | None:
    """Let a name of the root, such as `ManifestStore`, lead there from every module."""
    name = f"{DOCUMENTED[0]}.{node.get('reftarget')}"
    domain = env.domains["py"]
    if node.get("refdomain") != "py" or name not in domain.data["objects"]:
        return None
    return domain.resolve_xref(
        env, node["refdoc"], app.builder, node["reftype"], name, node, content
    )


def require_public_names(app: Sphinx, env: BuildEnvironment) -> None:
    """Warn of public names that no page shows."""
    shown = {entry[0] for entry in env.domains["py"].get_objects()}
    for module in DOCUMENTED:
        for name in importlib.import_module(module).__all__:
            if f"{module}.{name}" not in shown:
                LOGGER.warning("the API reference lacks %s.%s", module, name)


def setup(app: Sphinx) -> None:
    """Connect the functions above to the events of Sphinx."""
    app.connect("source-read", add_navigation)
    app.connect("source-read", add_sections)
    app.connect("source-read", open_directories)
    app.connect("source-read", add_names)
    app.connect("doctree-resolved", fold_sections)
    app.connect("html-page-context", lead_in)
    app.connect("autodoc-skip-member", skip_field)
    app.connect("missing-reference", find_public_name)
    app.connect("env-check-consistency", require_public_names)
