"""Pages in a real Chromium: what is drawn, what is asked of the network, keyboard, contrast, phones and paper."""

import base64
import csv
import io
import json
import os
import shutil
from collections import Counter
from pathlib import Path

import pytest
from browser import Page, chromium, opened_browser
from made_up import cells_at, recorded
from synthetic_runs import config_of, result_of, write_run

from icecore.cli import main
from icecore.paper import EXPERIMENTS, claims_of
from icecore.paper.grid import grid_of
from icecore.store import Records

RESULTS = Path(__file__).parents[1] / "results"
pytestmark = pytest.mark.skipif(chromium() is None, reason="needs Chromium, such as Debian's package chromium")
DATA_SEEDS = "needle, Normal 1024"  # the cell with several draws of its training data
NAUGHTY = "<script>window.pwned = 1</script><img src=x onerror='window.pwned = 1'>"


@pytest.fixture(scope="module")
def browser():
    with opened_browser() as page:
        yield page


@pytest.fixture(scope="module")
def results_page(tmp_path_factory) -> Path:
    """The paper's scale alone: records of a laptop would have the same cells."""
    folder = tmp_path_factory.mktemp("report")
    shutil.copytree(RESULTS, folder / "results", ignore=shutil.ignore_patterns("laptop"), copy_function=os.symlink)
    path = folder / "report.html"
    assert main(["report", str(folder / "results"), "--out", str(path)]) == 0
    return path


@pytest.fixture(scope="module")
def many_page(tmp_path_factory) -> Path:
    """2,000 runs, one of which has names that would be markup."""
    folder = tmp_path_factory.mktemp("many")
    for number in range(1999):
        width, lr, seed = (16, 32, 64, 128)[number % 4], (1e-3, 2e-3, 5e-3)[number // 4 % 3], number // 12
        write_run(folder / "runs", config_of(width, lr, seed), result_of(width, seed))
    config = config_of(16, 1e-3, 0, task=NAUGHTY)
    config["model"]["name"] = NAUGHTY
    write_run(folder / "runs", config, result_of(16, 0) | {"command": NAUGHTY, "device": NAUGHTY})
    path = folder / "report.html"
    assert main(["report", str(folder / "runs"), "--title", NAUGHTY, "--out", str(path)]) == 0
    return path


@pytest.fixture
def results(browser, results_page):
    browser.resize(1280, 900)
    browser.prefer("light")
    browser.open(results_page)
    browser.settle()
    yield browser
    assert browser.errors == []
    assert browser.requests == [results_page.resolve().as_uri()]


@pytest.fixture
def many(browser, many_page):
    browser.resize(1280, 900)
    browser.open(many_page)
    browser.settle()
    yield browser
    assert browser.errors == []
    assert browser.requests == [many_page.resolve().as_uri()]


def playgrounds() -> list[dict]:
    return [json.loads(path.read_text()) for path in sorted((RESULTS / "playground").glob("*.json"))]


def texts(page: Page, selector: str) -> list[str]:
    return page.run(f"[...document.querySelectorAll({json.dumps(selector)})].map((each) => each.textContent)")


def click_cell(page: Page, words: str) -> None:
    found = f"[...document.querySelectorAll('button.cell')].find((b) => b.ariaLabel.startsWith({json.dumps(words)}))"
    page.run(f"{found}.focus()")
    page.press("Enter", 13, "\r")


def saved(page: Page, button: str) -> str:
    """Return what a button saves, as a data address."""
    page.run(
        "window.blobs = []; URL.createObjectURL = (blob) => { window.blobs.push(blob); return 'data:,'; };"
        "HTMLAnchorElement.prototype.click = function () {}"
    )
    page.run(f"({button}).click()")
    page.wait_for("window.blobs.length === 1")
    return page.run(
        "new Promise((done) => { const reader = new FileReader(); reader.onload = () => done(reader.result);"
        "reader.readAsDataURL(window.blobs[0]); })"
    )


def test_every_table_and_figure_has_a_section_below_the_verdicts(results, results_page):
    assert results_page.stat().st_size < 10_000_000
    headings = texts(results, "h2, h3")
    assert headings[0] == "Verdicts"
    for experiment in EXPERIMENTS.values():
        if not experiment.missing:
            assert any(heading.endswith(f": {experiment.title}") for heading in headings), experiment.name
    left = {name: experiment for name, experiment in EXPERIMENTS.items() if experiment.missing}
    paragraphs = [text for text in texts(results, "main p") if text.startswith("Figure")]
    assert len(paragraphs) == len(left)
    assert left["fig5"].missing in paragraphs[2]
    linked = results.run("[...document.querySelectorAll('main p > a')].map((link) => link.getAttribute('href'))")
    assert {"#inside-needle-1024-attention-seed0", "#inside-modular-addition-1024"} <= set(linked)
    assert {"Playground", "What is inside", "Speed"} <= set(headings)
    links = results.run("[...document.querySelectorAll('nav a')].map((link) => link.getAttribute('href'))")
    assert len(links) > 20
    assert results.run(f"{json.dumps(links)}.every((link) => document.getElementById(link.slice(1)))")


def test_the_page_computes_the_shipped_runs(results):
    """All are solved; that needs the right bodies, drawn from their seeds."""
    runs = "[...document.querySelectorAll('details.one-run')]"
    names = {"needle", "parentheses", "modular-addition"}
    assert {text.partition(",")[0] for text in texts(results, "details.one-run > summary")} == names
    results.run(f"{runs}.forEach((run) => (run.open = true))")
    results.wait_for(f"{runs}.every((run) => run.textContent.includes('on 100 test items: 100 %'))")
    (needle,) = [data for data in playgrounds() if data["task"]["name"] == "needle"]
    assert needle["made"].keys() >= {"command", "commit", "device"}
    assert needle["made"]["command"] in texts(results, "details.one-run code")
    looking_up = (
        "[...document.querySelectorAll('details.one-run .goal.most')].map((each) => parseInt(each.textContent))"
    )
    assert max(results.run(looking_up)) > 70  # % of a head's attention
    for place in range(3):
        results.run(f"{runs}[{place}].querySelectorAll('.steps button')[1].click()")
    results.settle()
    assert all("step 0 of" in text for text in texts(results, "details.one-run output"))
    best = {data["task"]["name"]: 100 * max(data["task"]["baselines"].values()) for data in playgrounds()}
    for name, most in best.items():
        run = f"{runs}.find((run) => run.textContent.startsWith('{name}'))"
        results.wait_for(f"parseFloat({run}.querySelector('.accuracy')?.textContent) < {most + 5}")


def test_the_tiles_count_the_claims_of_the_command_line(results):
    names = [name for name, experiment in EXPERIMENTS.items() if experiment.cells is not None]
    claims = claims_of(names, "paper", "released", Records(RESULTS))
    judged = [claim for claim in claims if claim.tolerance and claim.verdict != "follows"]
    shown = dict(zip(("reproduced", "differs"), map(int, texts(results, ".tile.v-good b, .tile.v-bad b")), strict=True))
    assert shown == {verdict: sum(one.shown_verdict == verdict for one in judged) for verdict in shown}


def test_the_first_screen_says_what_holds_and_what_undecided_means(results):
    names = [name for name, experiment in EXPERIMENTS.items() if experiment.cells is not None]
    claims = {name: claims_of([name], "paper", "released", Records(RESULTS)) for name in names}
    (first, *_) = sentences = texts(results, ".findings li")
    assert 3 <= len(sentences) <= 5
    random = {claim.cell: claim.ours for claim in claims["table1"] if ", Random 1024" in claim.cell}
    assert f"solves {sum((ours or 0) >= 99 for ours in random.values())} of {len(random)} tasks" in first
    assert f"parentheses reaches {random['parentheses, Random 1024']:.1f}\N{NO-BREAK SPACE}%" in first
    judged = [claim for each in claims.values() for claim in each if claim.tolerance and claim.verdict != "follows"]
    open_ones = [claim for claim in judged if claim.verdict == "undecided"]
    few = sum(claim.n < 5 for claim in open_ones)
    assert f"{len(open_ones)} undecided: {few} have fewer than 5 seeds" in " ".join(texts(results, "main p.small"))
    tile = int(texts(results, ".tile.v-none b")[0])
    assert tile == sum(claim.verdict == "not run" for claim in judged)
    in_table = results.run(
        "[...document.querySelector('.verdicts').querySelectorAll('td:last-child')]"
        ".flatMap((cell) => [...cell.textContent.matchAll(/(\\d+) not run/g)].map((found) => +found[1]))"
    )
    assert sum(in_table) == tile
    assert texts(results, ".verdicts caption") == ["The paper", "Beyond the paper"]
    assert "not in the paper" not in texts(results, ".verdicts")[0]


def test_an_address_leads_to_its_part(browser, results_page):
    browser.resize(1280, 900)
    for part in ("playground", "speed", "inside-modular-addition-1024"):
        browser.call("Page.navigate", url="about:blank")
        browser.call("Page.navigate", url=f"{results_page.resolve().as_uri()}#{part}")
        browser.wait_for("document.documentElement?.dataset.ready === 'true'")
        top = f"document.getElementById('{part}').getBoundingClientRect().top"
        browser.wait_for(f"scrollY > 0 && ({top} < 60 || scrollY + innerHeight >= document.body.scrollHeight - 1)")
    assert browser.run("document.getElementById('inside-modular-addition-1024').open")
    assert browser.errors == []


def test_a_cell_shows_its_runs_and_their_curves(results):
    (cell,) = [cell for cell in cells_at("table1") if cell.label == "needle, Random 1024"]
    recorded = [run for run in Records(RESULTS).by_run().values() if run.get("setting") == cell.setting]
    click_cell(results, f"{cell.label}:")
    assert results.run("document.querySelector('dialog').open")
    rows = texts(results, "dialog tbody tr")
    assert len(rows) == len(recorded)
    assert {row[-12:] for row in rows} == {run["run"] for run in recorded}
    assert texts(results, "dialog code") == sorted(
        {run["command"] for run in recorded}, key=texts(results, "dialog code").index
    )
    assert results.run("document.querySelectorAll('dialog svg').length") == 2  # the seeds, and the curves
    results.press("Escape", 27)
    assert not results.run("document.querySelector('dialog').open")
    assert results.run("document.activeElement.ariaLabel").startswith(cell.label)


def test_a_dialog_has_the_runs_that_count_and_says_which_do_not(results):
    (claim,) = [one for one in claims_of(["table1"], "paper", "released", Records(RESULTS)) if one.cell == DATA_SEEDS]
    click_cell(results, f"{DATA_SEEDS}:")
    assert f"the median of {claim.n} runs over 4 data seeds" in texts(results, "dialog dd")[0]
    rows = [row.split("|") for row in dialog_rows(results, "details.cell-runs")]
    assert len(claim.values) == 8
    counted = [row for row in rows if not row[1].startswith("no")]
    assert [float(row[1]) for row in counted] == pytest.approx(claim.values, rel=1e-3)
    assert [row[-1] for row in counted] == [run.partition("/")[0] for one in claim.sources for run in one.runs]
    assert [row[1] for row in rows if row not in counted] == ["no: tf32"]
    assert "← baseline 17.68" in texts(results, "dialog svg text")  # beyond the edge, so that seeds can be told apart


def dialog_rows(page: Page, inside: str = "") -> list[str]:
    return page.run(
        f"[...document.querySelectorAll('dialog {inside} tbody tr')]"
        ".map((row) => [...row.children].map((cell) => cell.textContent).join('|'))"
    )


def test_shares_of_variance_show_the_measured_value_of_each_run(results):
    (claim,) = [
        one
        for one in claims_of(["table4"], "paper", "released", Records(RESULTS))
        if one.cell == "modular-addition, Random 1024, PC Emb"
    ]
    click_cell(results, f"{claim.cell}:")
    rows = [row.split("|") for row in dialog_rows(results)]
    assert [float(row[1]) for row in rows[: claim.n]] == pytest.approx(claim.values, rel=1e-3)
    assert all(row[1] == "no: not measured" for row in rows[claim.n :])


def test_claims_of_the_text_lead_to_their_runs_or_analyses(results):
    found = "[...document.querySelectorAll('#paper-results-text ~ div button.link')]"
    for label, words in (("consistent restarts: needle", "icecore reproduce"), ("linearized far", "icecore reproduce")):
        results.run(f"{found}.find((each) => each.textContent.startsWith('{label}')).click()")
        assert any(words in text for text in texts(results, "dialog code")), label
        results.press("Escape", 27)
    results.run(f"{found}.find((each) => each.textContent.startsWith('induction head')).click()")
    assert any(text.startswith("icecore analyze") for text in texts(results, "dialog code"))
    results.run("document.querySelector('dialog a').click()")
    results.settle()
    assert not results.run("document.querySelector('dialog').open")
    assert results.run("document.getElementById('inside-needle-1024-attention-seed0').open")
    named = texts(results, "#paper-results-text ~ details code")
    assert any("analyze" in text for text in named)
    assert any("reproduce" in text for text in named)


# The middle of a dot, of a bar, or of a line without dots.
POINT = """(() => {
  const svg = document.querySelector('#paper-results-NAME ~ figure .panel svg');
  svg.scrollIntoView({ block: 'center', behavior: 'instant' });
  const dot = svg.querySelector('[aria-label=dot] > *, [aria-label=bar] rect');
  const box = dot?.getBoundingClientRect();
  if (box) return [box.left + box.width / 2, box.top + box.height / 2];
  const line = svg.querySelector('[aria-label=line] path');
  const { x, y } = line.getPointAtLength(line.getTotalLength() / 2).matrixTransform(line.getScreenCTM());
  return [x, y];
})()"""


@pytest.mark.parametrize("name", ["table3", "fig4", "fig6", "fig7", "fig8", "init", "bodies"])
def test_a_click_on_a_point_shows_its_runs(results, name):
    x, y = results.run(POINT.replace("NAME", name))
    results.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    results.settle()
    for kind in ("mousePressed", "mouseReleased"):
        results.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
    results.settle()
    assert results.run("document.querySelector('dialog').open")
    recorded = Records(RESULTS).by_run()
    assert {row.rpartition("|")[2] for row in dialog_rows(results)} <= recorded.keys()
    assert dialog_rows(results)
    if name not in ("init", "fig8"):  # whose first point is of another figure, and of a step before the end
        known = {claim.cell for claim in claims_of([name], "paper", "released", Records(RESULTS))}
        assert texts(results, "dialog h2")[0] in known


def test_the_csv_of_a_figure_has_the_seed_and_the_run_of_each_value(results):
    recorded = Records(RESULTS).by_run()
    for name in ("fig7", "init", "bodies"):
        text = saved(results, f"document.querySelectorAll('#paper-results-{name} ~ figure .tools button')[2]")
        rows = list(csv.DictReader(io.StringIO(base64.b64decode(text.partition(",")[2]).decode())))
        assert rows
        for row in rows:
            run = recorded[row["run"]]
            assert (int(row["seed"]), float(row["test accuracy, %"])) == (
                run["seed"],
                pytest.approx(100 * run["accuracy"], rel=1e-5),
            )


def test_a_line_looks_the_same_in_legend_plot_and_file_whatever_is_hidden(results):
    figure = "document.querySelector('#paper-results-fig4 ~ figure')"
    dash = "(each) => each?.getAttribute('stroke-dasharray')"
    swatches = f"[...{figure}.querySelectorAll('.legend button svg line')].map({dash})"
    drawn = f"[...{figure}.querySelectorAll('.panel [aria-label=line]')].map({dash})"
    rules = results.run(swatches)[-2:]
    assert len(set(rules)) == 2
    assert results.run(drawn)[:2] == rules
    file = base64.b64decode(saved(results, f"{figure}.querySelector('.tools button')").partition(",")[2]).decode()
    assert all(f'stroke-dasharray="{each}"/><text' in file for each in rules)
    results.run(f"[...{figure}.querySelectorAll('.legend button')].at(-2).click()")
    results.settle()
    assert results.run(drawn)[0] == rules[1]
    text = saved(results, "document.querySelector('#paper-results-table3 ~ figure .tools button')")
    legend = base64.b64decode(text.partition(",")[2]).decode().partition(">the paper<")[0].rpartition("<line")[2]
    assert "stroke-dasharray" not in legend


def test_presets_and_seeds_can_be_chosen(results):
    assert "94.8" in texts(results, "#paper-results-table1 ~ .wide")[0]
    results.run(
        "[...document.querySelectorAll('fieldset label')].find((l) => l.textContent.includes('unfiltered')).click()"
    )
    results.settle()
    chosen = texts(results, "#paper-results-table1 ~ .wide")[0]
    assert "94.8" not in chosen
    claims = [
        claim for claim in claims_of(["table1"], "paper", "unfiltered", Records(RESULTS)) if claim.ours is not None
    ]
    assert len(texts(results, "#paper-results-table1 ~ .wide .cell")) == len(claims)
    dots = "document.querySelectorAll('#paper-results-fig7 ~ figure circle').length"
    before = results.run(dots)
    results.run("document.querySelector('#paper-results-fig7 ~ figure input').click()")
    results.settle()
    assert 0 < results.run(dots) < before / 2
    strokes = "document.querySelectorAll('#paper-results-fig7 ~ figure [aria-label=line]').length"
    before = results.run(strokes)
    results.run("document.querySelector('#paper-results-fig7 ~ figure .legend button').click()")
    results.settle()
    assert results.run(strokes) < before
    results.run("document.querySelector('#paper-results-fig7 ~ figure .legend button').click()")
    results.settle()
    assert results.run(strokes) == before


def test_a_pointer_reads_a_plot(results):
    x, y = results.run(
        "(() => { const svg = document.querySelector('#paper-results-fig7 ~ figure .panel svg');"
        "svg.scrollIntoView({ block: 'center', behavior: 'instant' });"
        "const box = svg.getBoundingClientRect(); return [box.right - 20, box.top + 30]; })()"
    )
    results.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    results.settle()
    tip = results.run("document.querySelector('#paper-results-fig7 ~ figure [aria-label=tip]').textContent")
    assert "1024" in tip
    assert "median" in tip


def test_the_keyboard_reaches_a_cell_and_opens_it(results):
    for _ in range(200):
        results.press("Tab", 9)
        if results.run("document.activeElement.classList.contains('cell')"):
            break
    results.press("Enter", 13, "\r")
    assert results.run("document.querySelector('dialog').open")
    assert results.run("document.querySelector('dialog').contains(document.activeElement)")


CONTRAST = """(() => {
  const channels = (text) => (text.match(/[\\d.]+/g) ?? []).map(Number);
  const linear = (value) => (value /= 255) <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  const behind = (element) => {
    for (; element; element = element.parentElement) {
      const colour = channels(getComputedStyle(element).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const low = [];
  for (const element of document.querySelectorAll('body *')) {
    const has = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (!has || !element.getClientRects().length || element.closest('noscript, script, style')) continue;
    const style = getComputedStyle(element);
    const front = channels(element instanceof SVGElement ? style.fill : style.color);
    const [a, b] = [light(front), light(behind(element))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) low.push([ratio.toFixed(2), element.tagName, element.className, element.textContent.slice(0, 30)]);
  }
  return low.slice(0, 10);
})()"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_has_contrast(results, scheme):
    results.prefer(scheme)
    assert (
        results.run("getComputedStyle(document.body).backgroundColor")
        == {
            "light": "rgb(255, 255, 255)",
            "dark": "rgb(20, 23, 28)",
        }[scheme]
    )
    results.run("document.querySelectorAll('details').forEach((each) => (each.open = true))")
    results.settle()
    assert results.run(CONTRAST) == []
    click_cell(results, "needle, Normal 1024")
    assert results.run(CONTRAST) == []


def test_everything_that_can_be_used_has_a_name(results):
    tree = results.call("Accessibility.getFullAXTree")["nodes"]
    usable = ("button", "link", "checkbox", "radio", "combobox", "searchbox", "textbox", "slider", "image", "img")
    roles = [(node["role"]["value"], node.get("name", {}).get("value", "")) for node in tree if not node.get("ignored")]
    assert sum(role == "button" for role, _ in roles) > 100
    assert [one for one in roles if one[0] in usable and not one[1].strip()] == []
    assert results.run("document.documentElement.lang") == "en"
    results.run("document.querySelectorAll('main details').forEach((each) => (each.open = true))")
    results.settle()
    names = results.run("[...document.querySelectorAll('.tools button')].map((button) => button.ariaLabel)")
    assert len(names) > 150
    assert [name for name, count in Counter(names).items() if count > 1] == []
    for figures in ("#playground ~ details figure", "#inside ~ details .heads"):
        buttons = texts(results, f"{figures} .tools button")
        assert set(buttons) == {"SVG", "PNG", "CSV"}


def test_a_phone_scrolls_in_one_direction(results):
    results.resize(390, 844, is_phone=True)
    assert results.run("document.documentElement.scrollWidth") <= 390
    assert results.run("document.querySelector('.findings').getBoundingClientRect().bottom + scrollY") < 1_200
    assert not results.run("document.querySelector('nav').checkVisibility()")
    results.run("document.querySelector('.side summary').click()")
    results.settle()
    assert results.run("document.querySelector('nav').checkVisibility()")
    results.run("document.querySelectorAll('main details').forEach((each) => (each.open = true))")
    results.settle()
    assert results.run("document.documentElement.scrollWidth") <= 390
    click_cell(results, "needle, Normal 1024")
    results.run("document.querySelectorAll('dialog details').forEach((each) => (each.open = true))")
    results.settle()
    assert results.run("document.querySelector('dialog').scrollWidth") <= 390
    assert results.run("[...document.querySelectorAll('dialog .wide')].every((each) => each.scrollWidth <= 390)")


def test_paper_has_the_tables_without_the_controls(results, tmp_path):
    results.prefer("dark")
    results.call("Emulation.setEmulatedMedia", media="print")
    assert results.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    shown = "[...document.querySelectorAll('.side, .tools')].some((each) => each.getClientRects().length)"
    assert not results.run(shown)
    results.resize(720, 900)  # as wide as paper: the rules of phones are for screens
    assert results.run("getComputedStyle(document.querySelector('.verdicts td')).display") == "table-cell"
    assert "Preset released: settings of the authors' scripts." in texts(results, "main p:not(.no-print)")
    assert results.run("document.querySelector('.print-only dl').getClientRects().length") == 1
    bar = "getComputedStyle(document.querySelector('.answer .track span')).printColorAdjust"
    assert results.run(bar) == "exact"
    assert results.run("[...document.querySelectorAll('.grid')].every((each) => each.getClientRects().length)")
    results.call("Emulation.setEmulatedMedia", media="")
    results.pdf(tmp_path / "page.pdf")
    assert (tmp_path / "page.pdf").read_bytes().count(b"/Type /Page\n") > 3


def test_nothing_is_broken_or_cut_where_it_cannot_be_read(results):
    """A command breaks between words, a percentage not at all, and the contents show no part of a third line."""
    links = "[...document.querySelectorAll('.side li li a')].map((link) => [link.clientHeight, getComputedStyle(link)])"
    lines = results.run(f"{links}.map(([height, style]) => height / parseFloat(style.lineHeight))")
    assert max(lines) == pytest.approx(2, abs=0.05)  # some are cut
    for width, is_phone in ((1280, False), (390, True)):
        results.resize(width, 844, is_phone=is_phone)
        words = "[...document.querySelectorAll('main code .word')].filter((word) => word.textContent.startsWith('--'))"
        height = "word.getBoundingClientRect().height / parseFloat(getComputedStyle(word).lineHeight)"
        heights = results.run(f"{words}.map((word) => {height}).filter(Boolean)")
        assert len(heights) > 20
        assert max(heights) < 1.5  # one line
    findings = texts(results, ".findings li")
    assert any("\N{NO-BREAK SPACE}%" in text for text in findings)
    assert not any(" %" in text for text in findings)


def test_tables_and_figures_are_saved_as_they_are_shown(results):
    table = saved(results, "document.querySelector('#paper-results-table2 ~ .bar .tools button')")
    text = base64.b64decode(table.partition(",")[2]).decode()
    grid = grid_of(claims_of(["table2"], "paper", "released", Records(RESULTS)))
    assert list(csv.reader(io.StringIO(text))) == [[*grid.headings], *map(list, grid.rows)]
    buttons = "document.querySelectorAll('#paper-results-fig7 ~ figure .tools button')"
    drawing = base64.b64decode(saved(results, f"{buttons}[0]").partition(",")[2]).decode()
    assert drawing.startswith("<svg")
    assert "var(--" not in drawing
    assert "Figure 7" in drawing
    picture = base64.b64decode(saved(results, f"{buttons}[1]").partition(",")[2])
    assert picture.startswith(b"\x89PNG")
    assert len(picture) > 10_000


def test_a_drawing_is_saved_as_it_is_shown(results):
    """A figure without a chart is an image, with its title in it."""
    figure = "document.querySelector('img.drawing').closest('figure')"
    assert results.run(f"{figure}.querySelector('figcaption')") is None
    title, shown = results.run(f"[{figure}.querySelector('img').alt, {figure}.querySelector('img').src]")
    drawing = base64.b64decode(saved(results, f"{figure}.querySelectorAll('.tools button')[0]").partition(",")[2])
    assert drawing == base64.b64decode(shown.partition(",")[2])
    assert title in drawing.decode()
    picture = base64.b64decode(saved(results, f"{figure}.querySelectorAll('.tools button')[1]").partition(",")[2])
    assert picture.startswith(b"\x89PNG")
    assert len(picture) > 10_000


def test_the_page_itself_cannot_ask_the_network(browser, results_page):
    browser.open(results_page)
    assert browser.run("fetch('https://example.com').then(() => 'sent', () => 'refused')") == "refused"
    image = "new Promise((done) => { const image = new Image(); image.onload = () => done('sent');"
    image += " image.onerror = () => done('refused'); image.src = 'http://example.com/x.png'; })"
    assert browser.run(image) == "refused"
    assert all("Content Security Policy" in error or "Refused" in error for error in browser.errors)
    assert browser.errors


def test_a_claim_without_a_number_says_what_was_measured(browser, tmp_path):
    recorded(tmp_path, cells_at("ladder", "laptop")[:2])
    assert main(["report", str(tmp_path), "--out", str(tmp_path / "page.html")]) == 0
    browser.resize(1280, 900)
    browser.open(tmp_path / "page.html")
    section = "section.experiment:has(h3[id$=ladder])"
    assert texts(browser, f"{section} > div th[scope=col]") == ["claim", "seeds", "measured"]
    assert all(text.startswith("> 8 (best ") for text in texts(browser, f"{section} > div td.prose"))
    total = len(claims_of(["ladder"], "laptop", "released", Records(tmp_path)))
    assert f"{total - 2} claims not run" in texts(browser, f"{section} summary")
    assert f"2 measured, {total - 2} not run" in texts(browser, ".verdicts td")
    browser.run(f"document.querySelector({section!r} + ' .link').click()")
    browser.settle()
    assert "oursno number, the median of 3 seeds" not in browser.run("document.querySelector('dialog').textContent")
    assert len(texts(browser, "dialog tbody tr")) == 3
    assert texts(browser, "dialog figcaption") == []
    assert browser.errors == []


def test_cells_of_a_users_own_are_told_apart_by_their_headings(browser, tmp_path):
    for lr in (1e-3, 2e-3):
        write_run(tmp_path / "runs", config_of(16, lr, 0), result_of(16, 0))
    assert main(["report", str(tmp_path / "runs"), "--out", str(tmp_path / "page.html")]) == 0
    browser.open(tmp_path / "page.html")
    headings = [text for text in texts(browser, "h3") if "Random" in text]
    assert headings == ["Random, lr 0.001, width 16", "Random, lr 0.002, width 16"]


def test_thousands_of_runs_open_and_can_be_found(many):
    assert many.run("document.querySelectorAll('*').length") < 5_000
    assert "2,000" not in texts(many, "h1")[0]
    assert texts(many, "#runs-needle") == ["needle"]
    click_cell(many, "needle, Random 16")
    assert len(texts(many, "dialog tbody tr")) == 50
    many.run(
        "[...document.querySelectorAll('dialog button')].find((b) => b.textContent.startsWith('Show all')).click()"
    )
    many.settle()
    assert len(texts(many, "dialog tbody tr")) > 150


def test_names_from_records_are_text(many):
    assert many.run("window.pwned") is None
    assert texts(many, "h1") == [NAUGHTY]
    assert many.run("document.title") == NAUGHTY
    assert NAUGHTY in texts(many, "h3")
    assert any(NAUGHTY in text for text in texts(many, "main code"))
    assert many.run("document.querySelectorAll('#page script, #page img').length") == 0
    assert many.run("window.pwned") is None
