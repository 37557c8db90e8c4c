"""Runs with damaged or changed files, full disks, no memory, and weights that are no numbers."""

import errno
import json
from pathlib import Path

import pytest
import safetensors
import torch
from small_runs import CPU, MODEL, SHORT, TASK, Stop, copied, same_weights, stop_after, train_whole

import icecore as ice
from icecore.cli import main
from icecore.errors import InputError
from icecore.store.tensors import digest, load_tensors, save_tensors
from icecore.sweeps import runner
from icecore.training import RunFolder

whole = pytest.fixture(scope="module")(train_whole)


def test_another_body_is_refused_with_a_way_out(whole, tmp_path, monkeypatch):
    path = copied(whole, tmp_path)
    monkeypatch.setattr("icecore.models.transformer.BASE_STD", 0.03)  # as if random numbers had changed
    with pytest.raises(InputError, match=r"frozen body of seed 0 .* train again with --with-body"):
        RunFolder(path).load(CPU)


@pytest.mark.parametrize("harm", ["truncated", "flipped", "emptied"])
def test_damaged_weights_are_refused(whole, tmp_path, harm, capsys):
    file = copied(whole, tmp_path) / "weights.safetensors"
    content = bytearray(file.read_bytes())
    if harm == "truncated":
        content = content[: len(content) // 2]
    elif harm == "flipped":
        content[-5] ^= 1
    else:
        content.clear()
    file.write_bytes(content)
    assert main(["evaluate", str(file.parent)]) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert err.startswith(f"error: {file} is damaged"), "the file, and no other"
    assert err.count("\n") == 1


@pytest.mark.parametrize("digests", [7, [None, None], ["0" * 64], None], ids=str)
def test_notes_without_the_digests_of_bodies_are_refused(whole, tmp_path, digests):
    run = copied(whole, tmp_path)
    tensors, notes = load_tensors(run / "weights.safetensors")
    save_tensors(run / "weights.safetensors", tensors, notes | {"body_sha256": digests})
    with pytest.raises(InputError, match=r"weights\.safetensors (is damaged: body_sha256|has 1 seeds)"):
        RunFolder(run).load(CPU)
    with pytest.raises(InputError, match=r"weights\.safetensors (is damaged: body_sha256|has 1 seeds)"):
        RunFolder(run).extract((0,), tmp_path / "extracted")
    assert not list(tmp_path.glob("extracted/*/*"))


@pytest.mark.parametrize("change", [lambda value: value * float("nan"), lambda value: value > 0, torch.Tensor.long])
def test_weights_that_are_no_finite_numbers_are_refused(whole, tmp_path, change):
    run = copied(whole, tmp_path)
    tensors, notes = load_tensors(run / "weights.safetensors")
    save_tensors(run / "weights.safetensors", {name: change(value) for name, value in tensors.items()}, notes)
    with pytest.raises(InputError, match="has values that are not finite numbers; delete it, and train again"):
        RunFolder(run).load(torch.device("cpu"))


def test_a_damaged_checkpoint_is_refused_with_a_way_out(tmp_path):
    with pytest.raises(Stop):
        ice.train(TASK, MODEL, out=tmp_path, log_every=1, checkpoint_every=2, on_progress=stop_after(5), **SHORT)
    (checkpoint,) = tmp_path.glob("needle/*/checkpoint.safetensors")
    content = bytearray(checkpoint.read_bytes())
    content[-3] ^= 1
    checkpoint.write_bytes(content)
    with pytest.raises(InputError, match="checksum is wrong; delete it, and train again"):
        ice.train(TASK, MODEL, out=tmp_path, resume=True, **SHORT)
    checkpoint.unlink()
    ice.train(TASK, MODEL, out=tmp_path, resume=True, **SHORT)


def narrowed(tensors: dict[str, torch.Tensor]) -> None:
    tensors["value/token"] = tensors["value/token"].flatten()[:1].clone()  # would be broadcast


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (narrowed, "does not fit config.json: value/token differs"),
        (lambda tensors: tensors.pop("mean/token"), "does not fit config.json: mean/token differs"),
        (lambda tensors: tensors.update(more=torch.zeros(3)), "does not fit config.json: more differs"),
        (lambda tensors: tensors.update({"mean/token": tensors["mean/token"].bool()}), "mean/token is of type"),
    ],
    ids=["another shape", "missing", "one more", "another type"],
)
def test_a_checkpoint_of_another_run_is_refused_before_anything_is_lost(tmp_path, monkeypatch, change, message):
    """Its checksum is right: somebody made it so, or a run of another version."""
    with pytest.raises(Stop):
        ice.train(TASK, MODEL, out=tmp_path, log_every=1, checkpoint_every=2, on_progress=stop_after(5), **SHORT)
    (checkpoint,) = tmp_path.glob("needle/*/checkpoint.safetensors")
    metrics = (checkpoint.parent / "metrics.jsonl").read_bytes()
    tensors, notes = load_tensors(checkpoint)
    change(tensors)
    save_tensors(checkpoint, tensors, notes)
    with monkeypatch.context() as patch:
        if "does not fit" in message:  # the header tells; huge tensors are not read
            patch.setattr("icecore.training.checkpoint.load_tensors", lambda _: pytest.fail("it loads"))
        with pytest.raises(InputError, match=message):
            ice.train(TASK, MODEL, out=tmp_path, resume=True, **SHORT)
    assert (checkpoint.parent / "metrics.jsonl").read_bytes() == metrics


@pytest.mark.parametrize("seconds", ["long", -1, True, 10**400, None])
def test_a_checkpoint_of_impossible_seconds_is_refused(tmp_path, seconds):
    with pytest.raises(Stop):
        ice.train(TASK, MODEL, out=tmp_path, log_every=1, checkpoint_every=2, on_progress=stop_after(5), **SHORT)
    (checkpoint,) = tmp_path.glob("needle/*/checkpoint.safetensors")
    tensors, notes = load_tensors(checkpoint)
    save_tensors(checkpoint, tensors, notes | {"seconds": seconds})
    with pytest.raises(InputError, match="is damaged: its seconds are"):
        ice.train(TASK, MODEL, out=tmp_path, resume=True, **SHORT)


def test_a_full_disk_loses_nothing(tmp_path, monkeypatch, whole):
    def full(*_arguments):
        raise safetensors.SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    with monkeypatch.context() as patch:
        patch.setattr("safetensors.torch.save_file", full)
        with pytest.raises(InputError, match=r"cannot write .*No space left on device"):
            ice.train(TASK, MODEL, out=tmp_path, **SHORT)
    (folder,) = tmp_path.glob("needle/*")
    assert not any(path.name.startswith(".") for path in folder.iterdir()), "nothing half-written is left"
    runs = ice.train(TASK, MODEL, out=tmp_path, resume=True, **SHORT)
    assert runs.path is not None
    assert same_weights(whole.path, runs.path)


def test_a_run_whose_weights_were_deleted_can_be_gone_on_with(tmp_path, whole):
    folder = copied(whole, tmp_path / "out")
    (folder / "weights.safetensors").unlink()
    ice.train(TASK, MODEL, out=tmp_path / "out", resume=True, **SHORT)
    assert same_weights(whole.path, folder)


def edit(path: Path, **changes: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (lambda run: (run / "config.json").write_text("[]"), "config.json"),
        (lambda run: (run / "config.json").write_text("{}"), "config.json"),
        (lambda run: (run / "result.json").write_text("{}"), "result.json is damaged"),
        (
            lambda run: edit(run / "config.json", model={"name": "transformer", "settings": {"width": 32}}),
            "does not fit config.json",
        ),
    ],
)
def test_files_that_were_changed_are_named(tmp_path, whole, capsys, harm, message):
    run = copied(whole, tmp_path / "out")
    harm(run)
    assert main(["evaluate", str(run), "--device", "cpu"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert message in error
    assert main(["show", str(run)]) in (0, 2)


def test_a_disk_that_is_full_when_a_model_is_exported(tmp_path, whole, monkeypatch, capsys):
    transformers = pytest.importorskip("transformers")

    def full(_self, folder: Path) -> None:
        Path(folder).mkdir(exist_ok=True)
        (Path(folder) / "config.json").write_text("{}")
        raise safetensors.SafetensorError("No space left on device")

    monkeypatch.setattr(transformers.GPT2LMHeadModel, "save_pretrained", full)
    assert main(["export", str(whole.path), str(tmp_path / "exported")]) == 2
    assert "exported: No space left on device; fix this or choose another path" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_half_written_is_removed(tmp_path, whole):
    folder = tmp_path / "needle" / whole.path.name
    folder.mkdir(parents=True)
    (folder / ".config.json.x1").write_text("{")
    (folder / ".checkpoint.safetensors.x2").write_text("half")
    runs = ice.train(TASK, MODEL, out=tmp_path, **SHORT)
    assert runs.path == folder
    assert not list(folder.glob(".*"))


def test_weights_that_the_last_step_has_spoilt_are_not_a_result(tmp_path):
    spoilt = {**SHORT, "steps": 1, "lr": 1e38, "warmup_steps": 0}
    with pytest.raises(InputError, match=r"is not finite .*try a lower --gain or --lr"):
        ice.train(TASK, MODEL, "all", out=tmp_path, **spoilt)
    assert not list(tmp_path.glob("*/*/result.json"))


def test_out_of_memory_before_the_first_step_is_no_traceback(monkeypatch):
    def explode(*_arguments, **_settings):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr("icecore.training.loop.Population", explode)
    with pytest.raises(InputError, match="out of memory with batch 16"):
        ice.train(TASK, MODEL, **SHORT)


def test_out_of_memory_names_what_to_try(monkeypatch):
    def explode(*_arguments, **_settings):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr("icecore.training.population.Population.logits", explode)
    with pytest.raises(InputError, match=r"batch 16 and 2 seeds: try --seeds 0 \(then the others\), or --batch 8"):
        ice.train(TASK, MODEL, **SHORT)


def test_a_digest_tells_names_types_and_shapes_apart():
    zeros = torch.zeros(2, 3)
    others = [("b", zeros), ("a", zeros.T), ("a", zeros.flatten()), ("a", zeros.int()), ("a", zeros + 1)]
    assert len({digest([one]) for one in [("a", zeros), *others]}) == 6


def test_metrics_that_are_damaged_are_left_out(tmp_path, whole):
    run = copied(whole, tmp_path)
    rows = len(list(RunFolder(run).metrics()))
    with (run / "metrics.jsonl").open("ab") as file:
        file.write(b'\xff\n[1]\n{"loss": [1.0]}\n{"step": 13, "lo')
    assert len(list(RunFolder(run).metrics())) == rows > 0
    assert main(["show", str(run)]) == 0
    beside = run.parent / "beside"
    beside.mkdir()
    (beside / "config.json").write_text("[]")
    with pytest.raises(InputError, match=r"the most similar run there has another config \(steps 12, not 3\)"):
        ice.train(TASK, MODEL, out=tmp_path, resume=True, **{**SHORT, "steps": 3})
    (run / "config.json").write_text("[]")
    with pytest.raises(InputError, match="is damaged: it is not the config of a run; delete the folder"):
        ice.load(run, "cpu")


def test_where_there_are_no_locks_one_goes_on_without(tmp_path, monkeypatch):
    def without(*_arguments):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", without)
    assert ice.train(TASK, MODEL, out=tmp_path, **SHORT).path is not None
    with runner.locked(tmp_path / "locks" / "a") as is_ours:
        assert is_ours
