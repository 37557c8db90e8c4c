"""The site builds without a warning, loads nothing from elsewhere, can be searched, and documents what is public."""

import contextlib
import importlib
import inspect
import re
import warnings
from html.parser import HTMLParser
from pathlib import Path

import pytest
from browser import chromium, opened_browser

import icecore as ice

DOCS = Path(__file__).parents[1] / "docs"
LOADING = {"audio", "embed", "iframe", "img", "link", "object", "script", "source", "video"}


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    needed = ("sphinx.cmd.build", "furo", "myst_parser")
    build, *_ = (pytest.importorskip(name, reason="needs the extra docs") for name in needed)
    folder = tmp_path_factory.mktemp("site")
    with warnings.catch_warnings(), contextlib.chdir(DOCS.parent):
        warnings.simplefilter("ignore")  # of libraries; Sphinx counts its own
        assert build.main(["--fail-on-warning", "--nitpicky", "--quiet", "docs", str(folder)]) == 0
    return folder


class Loaded(HTMLParser):
    """Collects what a browser loads by itself: not the targets of links that a reader follows."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value or "" for name, value in attrs if tag in LOADING and name in ("href", "src", "srcset")]


def test_nothing_is_loaded_from_elsewhere(site):
    loaded = Loaded()
    for page in site.rglob("*.html"):
        loaded.feed(page.read_text())
    assert any(each.endswith(".css") for each in (one.partition("?")[0] for one in loaded.found))
    assert [each for each in loaded.found if re.match(r"\w+:|//", each) and not each.startswith("data:")] == []
    styles = "".join(style.read_text() for style in site.rglob("*.css"))
    assert re.findall(r"@import|url\([\"']?(?:\w+:)?//", styles) == []


@pytest.mark.skipif(chromium() is None, reason="needs Chromium, such as Debian's package chromium")
def test_a_search_finds_pages_from_a_disk(site):
    with opened_browser() as page:
        page.call("Page.navigate", url=f"{(site / 'search.html').as_uri()}?q=induction")
        page.wait_for("document.querySelector('#search-results a[href^=\"inside.html\"]') !== null")
        assert page.errors == []
        assert [request for request in page.requests if not request.startswith(site.as_uri())] == []


@pytest.mark.skipif(chromium() is None, reason="needs Chromium, such as Debian's package chromium")
def test_commands_are_not_cut(site):
    with opened_browser() as page:
        for name in ("tutorial", "rank", "own-task", "page"):
            for width, is_phone in ((1280, False), (390, True)):
                page.resize(width, 844, is_phone=is_phone)
                page.call("Page.navigate", url=(site / f"{name}.html").as_uri())
                page.wait_for("document.readyState === 'complete'")
                blocks = "[...document.querySelectorAll('pre')].filter((each) => /^icecore /.test(each.textContent))"
                cut = page.run(f"{blocks}.filter((each) => each.scrollWidth > each.clientWidth).length")
                assert (page.run(f"{blocks}.length > 0"), cut) == (True, 0), (name, width)
                assert page.run("document.documentElement.scrollWidth") <= width


def test_every_page_can_be_found_and_searched(site):
    index = (site / "index.html").read_text()
    for page in DOCS.glob("*.md"):
        assert (site / f"{page.stem}.html").exists()
        assert page.stem == "index" or f'href="{page.stem}.html"' in index
    words = (site / "searchindex.js").read_text()
    assert '"unembed":' in words
    assert all(f'"{page.stem}"' in words for page in DOCS.glob("*.md"))
    assert "searchindex.js" in (site / "search.html").read_text()


def test_every_public_name_is_in_the_reference(site):
    reference = (site / "api.html").read_text()
    missing = []
    for package in ice.PACKAGES:
        module = importlib.import_module(f"icecore.{package}")
        names = [name for name in module.__all__ if inspect.isclass(getattr(module, name))]
        names += [name for name in module.__all__ if inspect.isfunction(getattr(module, name))]
        places = [f"icecore.{package}.{name}" for name in names]
        missing += [place for place in places if not named(place, reference)]
    own = [name for name in ice.__all__ if name not in ice.PACKAGES]
    missing += [name for name in own if not re.search(rf'id="icecore\.([\w.]+\.)?{name}"', reference)]
    assert missing == []


def named(place: str, reference: str) -> bool:
    """Tell whether a name is documented, where it is or, if `ice` has it too, there."""
    return f'id="{place}"' in reference or f'id="icecore.{place.rpartition(".")[2]}"' in reference


def test_every_number_of_the_paper_is_on_the_site(site):
    claims = (site / "claims.html").read_text()
    assert "needle, Random 1024" in claims
    assert claims.count("reproduced") > 10
