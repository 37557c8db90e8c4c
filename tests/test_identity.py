"""Identity of stored runs: the folder's name, numbers in range, types, and sizes before anything is allocated."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_runs import FLAGS, copied, train_whole

import icecore as ice
from icecore.cli import main
from icecore.errors import InputError
from icecore.store import Records
from icecore.tasks import make_task
from icecore.training import RunConfig
from icecore.training.identity import name_of

whole = pytest.fixture(scope="module")(train_whole)
TRAIN = ["train", "needle", *FLAGS, "--steps", "12"]
LOADING = {
    "evaluate": ["--device", "cpu"],
    "analyze": ["--what", "variance", "--device", "cpu"],
    "track": ["--device", "cpu"],
    "extract": ["--seeds", "1", "--out", "extracted"],
    "export": ["exported"],
    "sample": ["--device", "cpu"],
}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)


def edit(file: Path, change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    value = json.loads(file.read_text())
    change(value)
    file.write_text(json.dumps(value))
    return value


def with_config(run: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    """Change a run's config and give the folder the id of the new one, as an attacker would."""
    return run.rename(run.with_name(name_of(edit(run / "config.json", change))))


def refusal(capsys, *arguments: object) -> str:
    """Run a command that must refuse in one line and write nothing."""
    assert main([str(argument) for argument in arguments]) == 2
    out, err = capsys.readouterr()
    lines = [line for line in err.splitlines() if line.startswith("error: ")]
    assert out == ""
    assert len(lines) == 1
    assert "Traceback" not in err
    assert list(Path.cwd().iterdir()) == []
    return lines[0]


@pytest.mark.parametrize("command", LOADING)
def test_a_folder_under_another_id_is_refused(whole, tmp_path, capsys, command):
    run = copied(whole, tmp_path)
    other = run.rename(run.with_name("0123456789ab"))
    said = refusal(capsys, command, other, *LOADING[command])
    assert f"{other} is not the run of its config: the folder must be called {whole.path.name}" in said


def test_a_run_of_other_settings_under_this_id_is_refused(whole, tmp_path, capsys):
    """Training a config finds its folder by name; what lies there must be of that config."""
    run = copied(whole, tmp_path)
    edit(run / "config.json", lambda config: config.update(data_seed=7))
    for command, flags in LOADING.items():
        assert "is not the run of its config" in refusal(capsys, command, run, *flags)
    assert "is not the config it was made with" in refusal(capsys, *TRAIN, "--out", tmp_path)
    with pytest.raises(InputError, match="is not the run of its config"):
        ice.load(run, "cpu")


def test_a_result_of_other_seeds_is_refused(whole, tmp_path, capsys):
    run = copied(whole, tmp_path)
    edit(run / "result.json", lambda result: result.update(seeds=[5, 6]))
    with pytest.raises(InputError, match="is of other seeds than its config"):
        ice.load(run, "cpu")
    assert "is of other seeds than its config" in refusal(capsys, *TRAIN, "--out", tmp_path)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("accuracy", [7.0, 0.5], "accuracy has a value out of its range"),
        ("accuracy", [-0.1, 0.5], "accuracy has a value out of its range"),
        ("accuracy", [float("nan"), 0.5], "accuracy has a value out of its range"),
        ("accuracy", [True, 0.5], "accuracy has a value out of its range"),
        ("accuracy", [0.5], "accuracy is not a list with one entry per seed"),
        ("accuracy", 0.5, "accuracy is not a list with one entry per seed"),
        ("loss", ["low", "high"], "loss has a value out of its range"),
        ("seconds", [], "seconds is []"),
        ("seconds", -1.0, "seconds is -1.0"),
        ("seconds", "long", "seconds is 'long'"),
        ("baselines", [1], "baselines is [1]"),
        ("baselines", [0.1, 0.2], "baselines is [0.1, 0.2]"),
        ("baselines", {"chance": 7.0}, "baselines is {'chance': 7.0}"),
        ("steps", "many", "steps is 'many'"),
        ("steps", 1.5, "steps is 1.5"),
        ("trained_parameters", None, "trained_parameters is None"),
        ("device", 3, "device is 3"),
        ("command", {"a": 1}, "command is {'a': 1}"),
        ("seeds", "0,1", "its seeds are not a list of whole numbers"),
    ],
)
def test_results_out_of_range_or_of_another_type_are_one_line(whole, tmp_path, capsys, name, value, message):
    run = copied(whole, tmp_path)
    edit(run / "result.json", lambda result: result.update({name: value}))
    for command in (["show", run], ["evaluate", run, "--errors", "errors.jsonl"], [*TRAIN, "--out", tmp_path]):
        said = refusal(capsys, *command)
        assert f"{run / 'result.json'} is damaged: {message}" in said
        assert "delete the folder, and train again" in said


def test_a_list_of_runs_skips_the_damaged_one(whole, tmp_path, capsys):
    run = copied(whole, tmp_path / "runs")
    shutil.copytree(run, run.with_name("0123456789ab"))
    edit(run.with_name("0123456789ab") / "result.json", lambda result: result.update(accuracy=[7.0, 7.0]))
    assert main(["show", str(tmp_path / "runs")]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("1 run in")
    assert "warning: " in err
    assert "accuracy has a value out of its range" in err


def test_records_out_of_range_are_named_and_skipped(tmp_path):
    good = {"run": "a", "accuracy": 0.5, "device": "cpu"}
    bad = [{"accuracy": 7.0}, {"accuracy": True}, {"loss": "low"}, {"best_step": 0}, {"exact_match": -1}]
    lines = [json.dumps({**good, **change}) for change in bad]
    (tmp_path / "runs.jsonl").write_text("\n".join([json.dumps(good), *lines]) + "\n")
    warnings: list[str] = []
    assert [one["accuracy"] for one in Records(tmp_path, warnings.append).read()] == [0.5]
    assert warnings == [f"{tmp_path / 'runs.jsonl'}, line {number} is damaged and skipped" for number in range(2, 7)]


def setting(part: str, name: str, value: object) -> Callable[[dict[str, Any]], object]:
    return lambda config: config[part]["settings"].update({name: value})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (setting("model", "width", 2**20), "does not fit config.json"),
        (setting("model", "layers", 10**6), "layers must be at most 1,000"),
        (setting("task", "vocabulary", 10**9), "does not fit config.json"),
        (setting("task", "test_size", 10**12), "test_size must be at most 1,000,000"),
        (lambda config: config.update(positions=10**12), "positions must be a whole number of at most"),
        (lambda config: config.update(positions=10**6), "does not fit config.json"),
        (lambda config: config.update(seeds=list(range(1000))), "does not fit config.json"),
    ],
    ids=["width", "layers", "vocabulary", "test set", "endless positions", "positions", "seeds"],
)
def test_sizes_are_checked_before_anything_is_allocated(whole, tmp_path, capsys, monkeypatch, change, message):
    def allocate(*_arguments: object, **_settings: object) -> None:
        pytest.fail("it allocates")

    run = with_config(copied(whole, tmp_path), change)
    monkeypatch.setattr("icecore.training.run_folder.Population", allocate)
    monkeypatch.setattr("icecore.training.run_folder.load_weights", allocate)
    monkeypatch.setattr("icecore.tasks.Needle.test_set", allocate)
    for command, flags in LOADING.items():
        assert message in refusal(capsys, command, run, *flags)
    with pytest.raises(InputError, match=message):
        ice.load(run, "cpu")


def test_ten_million_seeds_are_one_line(whole, tmp_path, capsys):
    run = with_config(copied(whole, tmp_path), lambda config: config.update(seeds=list(range(10**7))))
    said = refusal(capsys, "evaluate", run)
    assert len(said) < 1000


@pytest.mark.parametrize(
    ("part", "name", "value"),
    [("task", "query", 3), ("task", "max_pairs", True), ("model", "width", "16"), ("model", "gain", [1])],
)
def test_settings_of_tasks_and_models_have_their_declared_types(whole, part, name, value):
    config = json.loads((whole.path / "config.json").read_text())
    config[part]["settings"][name] = value
    with pytest.raises(InputError, match=name):
        RunConfig.from_json(config)


def test_a_switch_of_a_task_is_true_or_false():
    with pytest.raises(InputError, match="double_flips must be true or false"):
        make_task("parentheses", settings={"double_flips": {"a": 1}})


@pytest.mark.parametrize(("name", "value"), [("seed", True), ("seed", 5), ("seconds", "long"), ("device", 1)])
def test_records_of_another_type_or_seed_are_not_merged(whole, tmp_path, capsys, name, value):
    config = json.loads((whole.path / "config.json").read_text()) | {"seeds": [0]}
    record = {"run": name_of(config), "seed": 0, "accuracy": 0.5, "config": config, "device": "cpu", "seconds": 1.0}
    (tmp_path / "sent").mkdir()
    sent = tmp_path / "sent" / "runs.jsonl"
    sent.write_text(json.dumps(record | {name: value}) + "\n")
    merge = ["results", "merge", str(sent.parent), "--results", str(tmp_path / "ours")]
    assert main(merge) == 2
    assert f"{name} is {value!r}" in capsys.readouterr().err
    assert not (tmp_path / "ours").exists()
    sent.write_text(json.dumps(record) + "\n")
    assert main(merge) == 0


@pytest.mark.parametrize(
    ("name", "value"), [("data_seed", {"a": 1}), ("data_seed", True), ("steps", True), ("lr", True)]
)
def test_settings_of_another_type_are_refused(whole, name, value):
    config = json.loads((whole.path / "config.json").read_text())
    (config if name in config else config["optimization"])[name] = value
    with pytest.raises(InputError, match=f"{name} must be a"):
        RunConfig.from_json(config)
