"""The site: `make docs` builds these pages with Sphinx. They are plain Markdown, which a code host shows too."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import icecore
from icecore.paper import evidence_of, named
from icecore.paper.claim_table import claim_table_of
from icecore.paper.experiment import Experiment
from icecore.paper.settings import remembered_settings
from icecore.reporting.claim import Claim
from icecore.store.records import Records

project = "icecore"
version = release = icecore.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc"]
html_theme = "furo"
html_title = "icecore"
highlight_language = "none"  # of unmarked blocks: commands, whose lines wrap; outputs are marked as text
html_static_path = html_css_files = ["site.css"]
maximum_signature_line_length = 80
html_copy_source = False
html_show_copyright = False
html_show_search_summary = False  # it is fetched page by page, which a browser refuses on a disk
myst_heading_anchors = 3  # links such as results.md#weights, as a code host has them
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_inherit_docstrings = False
# A type of another library, or inside icecore, has no page to link to.
nitpick_ignore_regex = [("py:.*", r"(?!icecore\b).*"), ("py:.*", r"icecore\.(models|sweeps|tasks|training)\.\w+\..*")]

RESULTS = Path(__file__).parents[1] / "results"
SHOWN = ("cell", "paper", "ours", "n", "interval", "baseline", "verdict")  # columns of a claim
TREE = "\n```{{toctree}}\n:hidden:\n:caption: {}\n\n{}\n```\n"


def fill_page(_app: Any, page: str, source: list[str]) -> None:
    """Make the sidebar from the lists of the index, and the tables of claims from the records."""
    if page == "index":
        for section in source[0].split("\n## ")[1:]:
            heading, _, text = section.partition("\n")
            links = re.findall(r"^- \[(.+?)\]\(([\w-]+)\.md\)", text, re.MULTILINE)
            source[0] += TREE.format(heading, "\n".join(f"{label} <{page}>" for label, page in links))
    if page == "claims":
        with remembered_settings():
            evidence = evidence_of(Records(RESULTS))
            source[0] += "".join(measured(each, each.claims_of(evidence)) for each in named(["all"]))


def measured(experiment: Experiment, claims: list[Claim]) -> str:
    """Return a section with the claims of one table or figure that were measured; nothing without any."""
    table = claim_table_of(experiment.name, [claim for claim in claims if claim.ours is not None])
    if not table.rows:
        return ""
    rows = [[row[heading] for heading in SHOWN] for row in table.records()]
    return f"\n## {table.title}\n\n{replace(table, headings=SHOWN, rows=rows).markdown()}\n"


def show_plainly(_app: Any, what: str, _name: str, _thing: Any, _options: Any, lines: list[str]) -> None:
    """Show a docstring as it was written: prose with `code`, and aligned or indented lines as a block."""
    paragraphs = [] if what == "module" else "\n".join(lines).strip().split("\n\n")
    shown = []
    for paragraph in paragraphs:
        if re.search(r"^ |\S   +\S", paragraph, re.MULTILINE):
            shown.append("::\n\n" + re.sub(r"^", "   ", paragraph, flags=re.MULTILINE))
        else:
            parts = re.split(r"`([^`]+)`", paragraph)
            prose = [re.sub(r"([\\*|_])", r"\\\1", part) for part in parts[::2]]
            code = [f"\\ ``{part}``\\ " for part in parts[1::2]]
            shown.append("".join(part for pair in zip(prose, [*code, ""], strict=True) for part in pair))
    lines[:] = "\n\n".join(shown).split("\n")


def setup(app: Any) -> None:
    app.connect("source-read", fill_page)
    app.connect("autodoc-process-docstring", show_plainly)
