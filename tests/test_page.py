"""The data of a page and its file: nothing is lost, mixed or taken for markup."""

import base64
import csv
import dataclasses
import hashlib
import json
import re
import shutil
import subprocess
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import pytest
from made_up import cells_at, record_of, recorded
from small_runs import copied, train_whole
from synthetic_runs import config_of, result_of, write_run
from synthetic_runs import record_of as synthetic_record

from icecore.cli import main
from icecore.page.document import STATIC, as_script, clean, page_html, static
from icecore.page.files import plain_tables
from icecore.page.own import own_part
from icecore.page.paper_part import paper_settings, scales_of
from icecore.page.report import Options, report_data
from icecore.page.runs import Library, Setting
from icecore.page.sources import sources_of
from icecore.paper import EXPERIMENTS, FIGURES, claims_of, evidence_of
from icecore.paper.experiment import Experiment
from icecore.paper.settings import remembered_settings
from icecore.reporting.curves import series_of
from icecore.reporting.inside import ANALYSES
from icecore.reporting.table import Table
from icecore.store import Records
from icecore.store.records import key_of
from icecore.tasks.lazy import strongest_lazy_rule

WEB = Path(__file__).parents[1] / "web"
RESULTS = Path(__file__).parents[1] / "results"
NAUGHTY = '</script><script>window.pwned = 1</script><!-- & "quoted" \u2028 \x1b[31m \u202e'


def nothing(*_):
    pass


def data_of(paths, options=Options()):
    with remembered_settings():
        return report_data(sources_of(paths), options, nothing, nothing)


class Parts(HTMLParser):
    """The texts of script elements, by their id or type, and of noscript."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.policy, self.title = "", ""
        self.inside: str | None = None
        self.tags: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        given = dict(attrs)
        if tag == "meta" and given.get("http-equiv"):
            self.policy = given["content"] or ""
        if tag == "script":
            self.scripts.append((given, ""))
        self.inside = tag

    def handle_data(self, data):
        if self.inside == "script":
            given, text = self.scripts[-1]
            self.scripts[-1] = given, text + data
        if self.inside == "title":
            self.title += data

    def handle_endtag(self, tag):
        self.inside = None

    @property
    def data(self):
        ((_, text),) = [one for one in self.scripts if one[0].get("id") == "data"]
        return json.loads(text)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return train_whole(tmp_path_factory)


def test_data_survive_and_nothing_of_them_is_markup():
    data = {"title": NAUGHTY, NAUGHTY: [1.5, float("nan"), float("inf"), None, True, 3], "nested": {"x": ("a", 1e-9)}}
    parts = Parts(page_html(data, NAUGHTY, [Table(NAUGHTY, (NAUGHTY,), [(NAUGHTY,)], notes=(NAUGHTY,))]))
    assert parts.data == clean(data)
    assert parts.data["title"] == NAUGHTY.replace("\u2028", "\\u2028").replace("\x1b", "\\x1b").replace(
        "\u202e", "\\u202e"
    )
    assert parts.data[clean(NAUGHTY)] == [1.5, None, None, None, True, 3]
    assert len(parts.scripts) == 2
    assert parts.title == parts.data["title"]
    assert "<" not in as_script(data)


def test_the_policy_allows_the_one_script_and_no_request():
    parts = Parts(page_html({}, "a title"))
    script = parts.scripts[-1][1]
    rules = dict(rule.strip().split(" ", 1) for rule in parts.policy.split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
    assert "link" in parts.tags  # an empty icon, so that none is requested
    assert "connect-src" not in rules
    assert "http" not in parts.policy


def test_baselines_of_own_runs_include_the_strongest_lazy_rule(tmp_path_factory, tmp_path):
    whole = train_whole(tmp_path_factory)
    rule = strongest_lazy_rule(whole.config.task)
    assert rule is not None
    run = copied(whole, tmp_path)
    ((_, setting),) = data_of([tmp_path])["settings"].items()
    assert setting["baselines"] == {rule.name: rule.accuracy} | whole.config.task.baselines()
    (run / "weights.safetensors").unlink()  # such as code that is not trusted: the folder is not loaded
    ((_, setting),) = data_of([tmp_path])["settings"].items()
    assert rule.name not in setting.get("baselines", {})


@pytest.mark.skipif(not (WEB / "node_modules").is_dir(), reason="needs node and `npm ci` in web/")
def test_the_bundle_is_what_node_builds_byte_for_byte():
    subprocess.run(["node", "build.mjs", "--check"], cwd=WEB, check=True, capture_output=True)


def test_the_bundle_is_built_from_the_sources_beside_it():
    named = {name: re.search(r"\(sources (\w+)\)", static(name)) for name in ("page.js", "page.css")}
    files = [path for path in (WEB / "src").rglob("*") if path.is_file()]
    sha = hashlib.sha256()
    for path in sorted([*files, WEB / "build.mjs", WEB / "package-lock.json"], key=str):
        sha.update(f"{path.relative_to(WEB).as_posix()}\n".encode() + path.read_bytes())
    assert {name: found[1] for name, found in named.items() if found} == dict.fromkeys(named, sha.hexdigest()[:16]), (
        "build it with: cd web && npm ci && npm run build"
    )


def test_bundled_libraries_keep_their_licences_and_the_lock_file_names_no_registry():
    text = static("page.js")
    for words in ("preact 1", "@observablehq/plot 0", "d3-array", "Permission to use, copy, modify", "The MIT License"):
        assert words in text, words
    lock = json.loads((WEB / "package-lock.json").read_text())
    assert all("resolved" not in package for package in lock["packages"].values())
    assert "registry" not in (WEB / "package-lock.json").read_text()
    bundled = set(re.findall(r"(d3-[\w-]+) \d", text))
    assert len(bundled) >= 10
    assert sorted(path.name for path in STATIC.iterdir()) == ["page.css", "page.js"]


def test_tables_in_html():
    table = Table("a < b", ("task", "ours"), [("x & y", "1")], left=("task",), notes=("n > m",))
    assert table.html() == (
        "<table><caption>a &lt; b</caption>"
        '<thead><tr><th class="left">task</th><th class="right">ours</th></tr></thead>\n'
        '<tbody><tr><td class="left">x &amp; y</td><td class="right">1</td></tr>\n</tbody></table><p>n &gt; m</p>'
    )


def test_curves_keep_measured_values_and_the_last_one():
    rows = [{"step": step, "loss": [float(step), 2.0 * step]} for step in range(1, 101)]
    rows[-1]["accuracy"] = [0.5, 0.25]
    rows.append({"step": 101, "loss": [1.0], "note": "of another number of seeds"})
    found = series_of(rows, 2, most=10)
    assert found["loss"]["steps"] == list(range(10, 101, 10))
    assert found["loss"]["values"] == [[10.0 * n for n in range(1, 11)], [20.0 * n for n in range(1, 11)]]
    assert found["loss"]["every"] == 10
    assert found["accuracy"] == {"steps": [100], "values": [[0.5], [0.25]], "every": 1}
    assert series_of(rows[:5], 2, most=10)["loss"]["every"] == 1


def test_a_run_in_a_record_and_in_a_folder_counts_once(tmp_path):
    library = Library(10)
    config, result = config_of(32, 1e-3, 4), result_of(32, 4)
    library.add_records([synthetic_record(config, result)])
    setting = library.add_folder(write_run(tmp_path, config, result))
    (run,) = library.settings[setting].runs
    assert run["run"] == synthetic_record(config, result)["run"]
    assert run["curve"] == [0, 0]
    assert library.curves[0]["accuracy"]["values"] == [[pytest.approx(result["accuracy"][0], abs=1e-4)]]
    library.add_folder(write_run(tmp_path, config_of(32, 1e-3, 5), result_of(32, 5)))
    assert [each["seed"] for each in library.settings[setting].runs] == [4, 5]


def test_a_recorded_curve_is_shown_until_a_folder_has_more(tmp_path):
    library = Library(10)
    config, result = config_of(32, 1e-3, 4), result_of(32, 4)
    library.add_records([synthetic_record(config, result) | {"curve": {"steps": [5, 10], "accuracy": [0.25, 0.5]}}])
    ((setting, known),) = library.settings.items()
    assert library.curves[known.runs[0]["curve"][0]]["accuracy"]["values"] == [[0.25, 0.5]]
    library.add_folder(write_run(tmp_path, config, result))
    assert "loss" in library.curves[library.settings[setting].runs[0]["curve"][0]]


def test_precisions_are_never_mixed():
    library = Library(10)
    for seed, precision in ((0, "fp32"), (1, "fp32"), (1, "bf16"), (2, "bf16"), (3, "bf16")):
        config = config_of(32, 1e-3, seed) | {"precision": precision}
        library.add_records([synthetic_record(config, result_of(32, seed) | {"accuracy": [0.1 * seed]})])
    ((_, setting),) = library.settings.items()
    assert len(setting.runs) == 5
    (group,) = own_part(library.settings)
    (source,) = group["cells"][0]["sources"]
    assert source["values"] == [pytest.approx(10.0), pytest.approx(20.0), pytest.approx(30.0)]
    assert [run.partition("/")[2] for run in source["runs"]] == ["1", "2", "3"]
    assert group["cells"][0]["baseline"] == 25.0


def test_points_keep_the_seeds_of_their_values(tmp_path):
    library = Library(10)
    for width in (16, 32):
        for seed in (3, 7):
            library.add_folder(write_run(tmp_path, config_of(width, 1e-3, seed), result_of(width, seed)))
    (group,) = own_part(library.settings)
    dots = [dot for line in group["charts"][0]["lines"] for dot in line["dots"]]
    assert [[run.partition("/")[2] for run in dot["runs"]] for dot in dots] == [["3", "7"], ["3", "7"]]
    expected = {width: [100 * result_of(width, seed)["accuracy"][0] for seed in (3, 7)] for width in (16, 32)}
    assert {dot["x"]: list(dot["values"]) for dot in dots} == expected


def test_cells_that_share_a_place_are_told_apart_by_what_differs():
    library = Library(10)
    configs = [config_of(width, lr, 0) for width in (16, 32) for lr in (1e-3, 2e-3)]
    configs.append(config_of(64, 1e-3, 0))
    configs[-1]["task"] = {"name": "needle", "version": 1, "settings": {"max_pairs": 8}}
    for config in configs:
        library.add_records([synthetic_record(config, result_of(16, 0))])
    (group,) = own_part(library.settings)
    rows = Counter((cell["row"], cell["column"]) for cell in group["cells"])
    assert max(rows.values()) == 1
    assert {row for row, _ in rows} == {
        "needle, max pairs 4, Random",
        "needle, max pairs 4, Random, lr 0.002",
        "needle, max pairs 8, Random",
    }
    assert {line["panel"] for line in group["charts"][0]["lines"]} == {"needle, max pairs 4", "needle, max pairs 8"}


def test_labels_of_settings_are_those_of_the_papers_cells():
    (cell,) = [cell for cell in cells_at("table1") if cell.label == "needle, Random 1024"]
    assert Setting(cell.of_one_seed.as_json()).label == cell.label
    (cell,) = [cell for cell in cells_at("table2") if cell.label == "needle, E_token & U 1024"] or [None]
    if cell is not None:
        assert Setting(cell.of_one_seed.as_json()).label == cell.label
    two = config_of(16, 1e-3, 0) | {"phases": [{"trainable": "embeddings"}, {"trainable": "all"}]}
    two["model"] = {"name": "gru", "settings": {}}
    assert Setting(two).label == "needle, Random, then Normal, gru"


def test_every_number_names_the_runs_behind_it():
    """Parameter counts need no run; a measurement inside a run names its stored analysis."""
    evidence = evidence_of(Records(RESULTS), "paper", "released")
    recorded = {key_of(run): run for run in Records(RESULTS).by_run().values()}
    analyses = {path.stem for path in (RESULTS / "analyses").iterdir()}
    for name, experiment in EXPERIMENTS.items():
        for claim in experiment.claims_of(evidence) if name != "table6" else ():
            assert claim.sources or claim.ours is None, claim.cell
            for source in claim.sources:
                assert source.analysis in analyses or len(source.runs) == len(source.values), claim.cell
                assert recorded.keys() >= set(source.runs)
            if name in ("table1", "fig7"):
                assert claim.values == tuple(100 * recorded[run]["accuracy"] for run in claim.sources[0].runs) + tuple(
                    100 * recorded[run]["accuracy"] for source in claim.sources[1:] for run in source.runs
                )


def test_data_seeds_count_the_same_in_every_table():
    evidence = evidence_of(Records(RESULTS), "paper", "released")
    first, second = (
        {claim.setting: claim for claim in EXPERIMENTS[name].claims_of(evidence) if claim.values}
        for name in ("table1", "fig7")
    )
    drawn = {(point.task, point.line, point.width): point for point in FIGURES["fig7"][1].points(evidence)}
    both = first.keys() & second.keys()
    assert any(len(first[setting].sources) > 1 for setting in both)
    for setting in both:
        assert first[setting].values == second[setting].values
        assert first[setting].by_data_seed == second[setting].by_data_seed
    (claim,) = [one for one in second.values() if one.cell == "needle, Normal 1024"]
    assert drawn["needle", "Normal", 1024].values == claim.values


def test_headings_of_experiments():
    headings = {name: Experiment(name, "").heading for name in ("table1", "fig7", "text", "my_own")}
    assert headings == {"table1": "Table 1", "fig7": "Figure 7", "text": "Text", "my_own": "My own"}


@pytest.fixture
def few(monkeypatch, request):
    """Leave a few of the experiments: building the cells of all of them takes seconds."""
    left = getattr(request, "param", ("table1", "fig2", "fig7", "text"))
    everything = dict(EXPERIMENTS)
    for name in everything:
        if name not in left:
            monkeypatch.delitem(EXPERIMENTS, name)
    paper_settings.cache_clear()
    yield
    paper_settings.cache_clear()
    EXPERIMENTS.clear()  # undoing the deletions alone would change the order
    EXPERIMENTS.update(everything)


@pytest.fixture(scope="module")
def partial(tmp_path_factory):
    """Some cells of two tables at a laptop's scale, and runs of a user's own."""
    folder = tmp_path_factory.mktemp("partial")
    recorded(folder, cells_at("table1", "laptop")[:3])
    cell = cells_at("table1", "laptop")[0]
    other = dataclasses.replace(cell, training=cell.training | {"steps": 77})
    Records(folder).append([record_of(other, seed, 0.4 + 0.1 * seed) for seed in range(3)])
    return folder


@pytest.mark.usefixtures("few")
def test_a_partial_page_has_the_verdicts_of_the_command_line_and_says_what_was_not_run(partial):
    data = data_of([partial])
    (part,) = data["parts"]
    assert part["scale"] == "laptop"
    assert {one["name"] for one in part["experiments"]} == set(EXPERIMENTS)
    by_name = {one["name"]: one for one in part["experiments"]}
    for name, preset in (("table1", "released"), ("table1", "paper"), ("fig7", "released"), ("text", "released")):
        with remembered_settings():
            claims = claims_of([name], "laptop", preset, Records(partial))
        assert by_name[name]["presets"][preset]["counts"]["all"] == Counter(claim.shown_verdict for claim in claims)
    shown = by_name["table1"]["presets"]["released"]["claims"]
    done = [claim for claim in shown if "ours" in claim]
    assert [claim["n"] for claim in done] == [3, 3, 3]
    known = {key_of(run) for setting in data["settings"].values() for run in setting["runs"]}
    assert all(known >= set(source["runs"]) and len(source["runs"]) == 3 for one in done for source in one["sources"])
    assert Counter(claim["verdict"] for claim in shown)["not run"] == len(shown) - 3
    (group,) = data["own"]
    assert [(cell["n"], cell["shown"]["ours"]) for cell in group["cells"]] == [(3, "50.0")]
    assert any(table.rows for table in plain_tables(data))


DRAWN = ("thaw", "transplant")  # cells with their numbers, which need no hover


def test_every_figure_has_a_chart_of_its_points():
    """Points of results only; the rest is drawn. Every value has its run."""
    evidence = evidence_of(Records(RESULTS), "paper", "released")
    recorded = set(map(key_of, Records(RESULTS).by_run().values()))
    for name, (_, figure) in FIGURES.items():
        points = figure.points(evidence)
        if not points:
            continue
        if name in DRAWN:
            assert figure.chart is None, name
            continue
        assert figure.chart is not None, name
        chart = figure.chart(points, figure.title)
        dots = [dot for line in chart.lines for dot in line.dots]
        assert all(len(dot.runs) == len(dot.values) for dot in dots), name
        assert recorded >= {run for dot in dots for run in dot.runs}
        values = [value for dot in dots for value in dot.values]
        flat = [each for point in points for each in point.values]
        expected = [value for each in flat for value in (each if isinstance(each, tuple) else (each,))]
        assert sorted(values) == sorted(expected), name


@pytest.mark.usefixtures("few")
def test_scales_are_told_from_the_records(partial, tmp_path):
    recorded(tmp_path, cells_at("table1")[:1])
    with remembered_settings():
        assert scales_of(Records(partial)) == ["laptop"]
        assert scales_of(Records(tmp_path)) == ["paper"]
    assert scales_of(Records(tmp_path / "none")) == []


def test_what_is_inside_is_measured_for_a_run_that_is_named(whole, tmp_path, monkeypatch):
    monkeypatch.delitem(ANALYSES, "readout")  # takes seconds, and has a table like the others
    run = copied(whole, tmp_path)
    data = data_of([run], Options(title="mine"))
    (inside,) = data["inside"]
    names = [analysis["name"] for analysis in inside["analyses"]]
    assert names == [name for name in ANALYSES if name in names]
    assert {"variance", "causal", "attention"} <= set(names)
    by_name = {analysis["name"]: analysis for analysis in inside["analyses"]}
    assert len(by_name["attention"]["charts"]) == (2 if whole.config.task.max_pairs >= 4 else 0)
    assert {line["panel"] for line in by_name["causal"]["charts"][0]["lines"]} == {
        "directions kept",
        "directions removed",
    }
    assert data_of([run], Options(inside=False))["inside"] == []
    assert len(data["curves"]) == 1
    assert data["title"] == "mine"


def test_a_page_from_the_command_line(whole, tmp_path, capsys):
    run, page = copied(whole, tmp_path), tmp_path / "page.html"
    assert main(["report", str(run), "--no-inside", "--out", str(page), "--json"]) == 0
    said = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert said["files"] == [str(page)]
    assert (said["settings"], said["runs"], said["bytes"]) == (1, 2, page.stat().st_size)
    data = Parts(page.read_text()).data
    assert data["own"][0]["cells"][0]["n"] == 2
    assert str(tmp_path) not in page.read_text()  # paths of this machine are nobody's business


def test_records_of_a_folder_are_also_those_directly_below_it(tmp_path):
    for name in ("results", "results/laptop", "results/laptop/old"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "runs.jsonl").write_text("")
    found = sources_of([tmp_path / "results"])
    assert found.records == (tmp_path / "results", tmp_path / "results/laptop")
    assert sources_of([tmp_path / "results/laptop/old"]).records == (tmp_path / "results/laptop/old",)


@pytest.mark.parametrize("few", [("ladder",)], indirect=True)
@pytest.mark.usefixtures("few")
def test_a_claim_without_a_number_has_its_runs_and_its_note(tmp_path):
    """The narrowest width of two rungs is too narrow: no width is known, but these runs are the ladder's."""
    recorded(tmp_path, cells_at("ladder", "laptop")[:2])
    data = data_of([tmp_path])
    (ladder,) = [one for one in data["parts"][0]["experiments"] if one["name"] == "ladder"]
    shown = ladder["presets"]["released"]
    tried = [claim for claim in shown["claims"] if claim["verdict"] != "not run"]
    assert [claim["note"].partition(" (")[0] for claim in tried] == ["> 8", "> 8"]
    assert [(claim["n"], len(claim["sources"][0]["runs"])) for claim in tried] == [(3, 3), (3, 3)]
    assert shown["counts"]["all"]["not run"] == len(shown["claims"]) - 2
    assert not any("ours" in claim for claim in shown["claims"])
    assert data["own"] == []


@pytest.mark.usefixtures("few")
def test_titles_name_records_with_claims_and_the_tasks_of_others(partial, tmp_path):
    assert data_of([partial])["title"] == f"icecore: {partial.name}"
    runs = own_runs(tmp_path, 5)
    assert data_of([partial, *runs])["title"] == f"icecore: {partial.name}"
    assert data_of(runs[:2])["title"] == "icecore: task0, task1"
    (tmp_path / "runs.jsonl").write_text("")  # as `icecore compare` leaves one
    assert data_of([tmp_path])["title"] == "icecore: task0, task1, task2 and 2 more"


def own_runs(folder, count):
    for task in range(count):
        write_run(folder / f"runs{task}", config_of(16, 1e-3, 0, task=f"task{task}"), result_of(16, 0))
    return [folder / f"runs{task}" for task in range(count)]


@pytest.mark.usefixtures("few")
def test_files_of_tables_and_figures(partial, tmp_path, capsys):
    folder = tmp_path / "files"
    assert main(["report", str(partial), "--out", str(tmp_path / "page.html"), "--files", str(folder)]) == 0
    assert "files of tables and figures" in capsys.readouterr().out
    names = sorted(path.name for path in folder.iterdir())
    assert {
        "table1-laptop.csv",
        "table1-laptop.md",
        "table1-laptop-grid.csv",
        "fig7-laptop.svg",
        "fig7-laptop.png",
    } <= {*names}
    rows = list(csv.DictReader((folder / "table1-laptop.csv").read_text().splitlines()))
    assert [row["n"] for row in rows] == ["3", "3", "3"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere"], "there is no run at nowhere"),
        (["empty"], "holds neither runs nor records"),
        ([], "there is no results/ and no runs/ here"),
        (["run", "--out", "page.txt"], "--out must end in .html"),
        (["run", "--out", "run/page.html"], "holds only the run"),
        (["broken"], "is damaged"),
        (["notes.json"], "is not what icecore analyze --out writes"),
        (["run", "--out", "missing/../empty"], "--out must end in .html"),
    ],
)
def test_errors_are_one_line(arguments, words, whole, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    shutil.copytree(whole.path, tmp_path / "run")
    shutil.copytree(whole.path, tmp_path / "broken")
    (tmp_path / "broken" / "config.json").write_text("[]")
    (tmp_path / "notes.json").write_text("{}")
    before = sorted(tmp_path.rglob("*"))
    assert main(["report", *arguments]) == 2
    assert words in capsys.readouterr().err
    assert sorted(tmp_path.rglob("*")) == before


def test_a_damaged_run_among_others_is_left_out_with_a_warning(tmp_path, capsys):
    for seed in range(3):
        write_run(tmp_path / "runs", config_of(16, 1e-3, seed), result_of(16, seed))
    (broken, *_) = sorted((tmp_path / "runs").glob("*/*"))
    (broken / "result.json").write_text("{")
    assert main(["report", str(tmp_path / "runs"), "--out", str(tmp_path / "page.html"), "--json"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out.splitlines()[-1])["runs"] == 2
    assert f"{broken} is damaged and skipped" in captured.err


def test_an_unfinished_run_shows_how_far_it_is(tmp_path):
    path = write_run(tmp_path, config_of(16, 1e-3, 0), result_of(16, 0))
    (path / "result.json").unlink()
    data = data_of([path])
    ((_, setting),) = data["settings"].items()
    assert setting["runs"][0]["unfinished"] == 1000
    assert data["own"][0]["cells"][0]["verdict"] == "not run"
