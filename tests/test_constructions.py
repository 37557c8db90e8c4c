"""Appendix F's constructions: right on every input, by the mechanism they describe, in Hugging Face's GPT-2 too."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from icecore.cli import main
from icecore.constructions import CONSTRUCTIONS, checks_of, construct, construction_of, load_construction
from icecore.constructions.checks import are_wrong, encode
from icecore.constructions.circuit import Circuit, zero_mean_basis
from icecore.constructions.made import Constructed
from icecore.errors import InputError
from icecore.paper.appendix_f import sufficient
from icecore.reporting.figures.widths import Point
from icecore.seeding import make_generator
from icecore.store.tensors import load_tensors, save_tensors
from icecore.tasks import Batch, DecimalAddition, Memorization, ModularAddition, Needle, Parentheses, Task

NEEDLE = Needle(max_pairs=3, values=3, vocabulary=10)
DECIMAL = DecimalAddition(digits=2)
SMALL: list[Task] = [
    ModularAddition(modulus=3),
    ModularAddition(modulus=15),
    ModularAddition(modulus=31),
    Needle(max_pairs=1, values=1, vocabulary=4),
    NEEDLE,
    Needle(max_pairs=3, values=3, vocabulary=8, spare_markers=1, query="marker"),
    DecimalAddition(digits=1),
    DECIMAL,
    replace(DECIMAL, scored="target-is-digit"),
    Parentheses(max_pairs=1),
    Parentheses(max_pairs=6),
]
MIDDLING: list[Task] = [
    ModularAddition(modulus=31),
    Needle(max_pairs=8, values=6, vocabulary=30, test_size=300),
    DECIMAL,
    Parentheses(max_pairs=6),
]
RELEASED: list[Task] = [ModularAddition(), Needle(), DecimalAddition(), Parentheses()]


def every(task: Task) -> Batch:
    return encode(task, construction_of(task).every_input(task))


def wrong(made: Constructed, batch: Batch, dtype: torch.dtype = torch.float64) -> int:
    return int(are_wrong(made.predict(batch, dtype), batch).sum())


@pytest.mark.parametrize("task", SMALL, ids=str)
def test_the_inputs_are_all_there_are(task):
    listed = [item.prompt for item in construction_of(task).every_input(task)]
    drawn = task.items(task.draw(200 if task.train_set() is None else task.train_set().tokens.shape[0], rng()))
    assert len(set(listed)) == len(listed) == construction_of(task).count_inputs(task)
    assert {item.prompt for item in (*drawn, *task.test_items())} <= set(listed)


def rng() -> torch.Generator:
    return make_generator(0, "constructions")


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("task", SMALL, ids=str)
def test_every_input_of_a_small_task_is_right(task, dtype):
    assert wrong(construct(task), every(task), dtype) == 0


@pytest.mark.parametrize("task", RELEASED, ids=lambda task: task.name)
def test_the_released_test_items_are_right(task):
    """A part of them: `icecore construct` checks all."""
    made, batch = construct(task), task.test_set()[:500]
    assert wrong(made, batch) == wrong(made, batch, torch.float32) == 0


@pytest.mark.parametrize("copies", [1, 2, 4])
def test_any_number_of_circles_adds(copies):
    task = ModularAddition(modulus=59)
    made = construct(task, copies=copies)
    assert made.model.width == 2 * copies + 2
    assert wrong(made, every(task)) == 0


def test_widths_do_not_grow_with_the_task():
    large = [Needle(max_pairs=60, values=500, vocabulary=700), DecimalAddition(digits=30), Parentheses(max_pairs=90)]
    for task, usual in zip(large, RELEASED[1:], strict=True):
        made = construct(task)
        assert made.model == construct(usual).model
        assert wrong(made, task.test_set()[:50]) == 0
    assert construct(ModularAddition(modulus=1_001)).model == construct(RELEASED[0]).model


@pytest.mark.parametrize("task", MIDDLING, ids=lambda task: task.name)
def test_no_part_is_idle(task):
    """Without any one of the parameters that are not zero, items go wrong."""
    made, batch = construct(task), task.test_set()[:300]
    used = [name for name, value in made.parameters.items() if value.any() and "norm" not in name]
    assert {"token", "unembed"} <= set(used)
    for name in used:
        less = {**made.parameters, name: torch.zeros_like(made.parameters[name])}
        assert wrong(replace(made, parameters=less), batch) > 0, name


@pytest.mark.parametrize("task", MIDDLING, ids=lambda task: task.name)
def test_hugging_faces_gpt2_computes_the_same_answers(task):
    made, batch = construct(task), task.test_set()[:200]
    network = made.model.to_huggingface(made.dims, made.parameters).double().eval()
    state = {name: value.dtype for name, value in network.state_dict().items() if value.is_floating_point()}
    assert set(state.values()) == {torch.float64}
    with torch.no_grad():
        predictions = network(batch.tokens).logits.argmax(dim=-1)
    assert not are_wrong(predictions, batch).any()


def seen(made: Constructed, batch: Batch) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = {}

    def hook(name: str, value: torch.Tensor) -> torch.Tensor:
        found[name] = value
        return value

    made.model.hidden(made.parameters, batch.tokens, hook)
    return found


def test_needle_is_an_induction_head():
    task = Needle(max_pairs=4, values=6, vocabulary=20)
    made = construct(task)
    batch = task.encode([task.test_items()[0]])
    (item,) = task.items(batch)
    attention = seen(made, batch)
    last = len(item.prompt) - 1
    to_the_one_before = attention["block0.attention"][0, 0].diagonal(-1)[: last - 1]
    assert (to_the_one_before > 1 - 1e-12).all()
    marker = item.prompt.index(item.prompt[-1] - task.first_query + task.first_marker)
    assert attention["block1.attention"][0, 0, last, marker + 1] > 1 - 1e-12


def test_decimal_addition_computes_the_papers_sum_to_a_tenth():
    """x + y - z of appendix F, with exact fractions, at every digit of every sum of three digits drawn."""
    task = DecimalAddition(digits=4, test_size=200)
    circuit = CONSTRUCTIONS[task.name].circuit(task)
    made = construct(task)
    stream = seen(made, task.test_set())["block0.middle"] @ circuit.basis
    for row, item in enumerate(task.test_items()):
        digits = [*item.prompt[:4], 0], [*item.prompt[5:9], 0], [token - 20 for token in item.answer[:-1]]
        for i in range(5):
            x, y = (sum(number[j] * 10.0 ** (j - i) for j in range(i + 1)) for number in digits[:2])
            z = sum(digits[2][j] * 10.0 ** (j - i) for j in range(i))
            found = float(stream[row, task.prompt_length - 1 + i, circuit.names.index("sum")])
            assert x + y - z == pytest.approx(round(x + y - z), abs=1e-9), "the paper's identity"
            assert round(x + y - z) - 0.1 - 1e-9 <= found <= round(x + y - z) + 1e-9


def test_the_mean_depth_at_every_position_decides_parentheses():
    task = Parentheses(max_pairs=4)
    made, circuit = construct(task), CONSTRUCTIONS["parentheses"].circuit(task)
    batch = task.encode([item for item in construction_of(task).every_input(task) if len(item.prompt) == 7][:40])
    mean = (seen(made, batch)["block0.middle"] @ circuit.basis)[..., circuit.names.index("mean")]
    signs = (batch.tokens == 1).double() - (batch.tokens == 2).double()
    depth = signs.cumsum(dim=1) / torch.arange(1, task.max_length + 1)
    assert torch.allclose(mean[:, :7], depth[:, :7], atol=1e-12)


def test_a_position_that_holds_a_power_of_ten_has_the_same_key_everywhere():
    """Why decimal addition has other positions than the paper's [1, 10^i, .01 x 10^-i]."""
    powers = torch.tensor([[1.0, 10.0**i, 0.01 * 10.0**-i] for i in range(1, 11)], dtype=torch.float64)
    normed = torch.nn.functional.layer_norm(powers @ zero_mean_basis(4).T, (4,))
    keys = (normed @ zero_mean_basis(4))[:, 1]
    assert keys.max() / keys.min() < 1.01


def test_readings_are_exact_at_their_length():
    circuit = Circuit(NEEDLE, ("a", "b", "c"), layers=1)
    point = circuit.vector(a=3, b=-4, c=12)
    circuit.write_row("block0.q", 0, circuit.reading(a=2, c=1, constant=5), 13.0)
    normed = torch.nn.functional.layer_norm(circuit.basis @ point, (4,), eps=1e-5)
    read = circuit.body["block0.q.weight"][0] @ normed + circuit.body["block0.q.bias"][0]
    assert float(read) == pytest.approx(2 * 3 + 12 + 5, abs=1e-12)


def test_weights_are_written_and_read(tmp_path: Path):
    made = construct(NEEDLE)
    made.save(tmp_path / "needle.safetensors")
    again = load_construction(tmp_path / "needle.safetensors")
    assert (again.task, again.model, again.options) == (made.task, made.model, made.options)
    assert all(torch.equal(value, made.parameters[name]) for name, value in again.parameters.items())
    assert load_construction_of(tmp_path, construct(ModularAddition(modulus=31), copies=1)).options == {"copies": 1}


def load_construction_of(folder: Path, made: Constructed) -> Constructed:
    made.save(folder / "other.safetensors")
    return load_construction(folder / "other.safetensors")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"construction": "nedle"}, "unknown construction 'nedle'"),
        ({"format": "other"}, "holds no construction"),
        ({"task": {"settings": {"max_pairs": 0}, "version": 1}}, "max_pairs must be at least 1"),
        ({"task": {"settings": {"max_pairs": 2}, "version": 1}}, "its weights do not fit its settings"),
        ({"task": {"settings": {}, "version": 9}}, "needle has changed since"),
        ({"model": {"name": "lstm"}}, "its model is no transformer"),
        ({"model": 3}, "is damaged"),
        ({"options": None}, "is damaged"),
    ],
    ids=str,
)
def test_a_damaged_file_is_one_line_before_weights_are_read(tmp_path: Path, change, message, capsys, monkeypatch):
    path = tmp_path / "needle.safetensors"
    construct(NEEDLE).save(path)
    tensors, notes = load_tensors(path)
    save_tensors(path, tensors, notes | change)
    monkeypatch.setattr("icecore.constructions.made.load_weights", lambda _: pytest.fail("it loads"))
    assert main(["construct", str(path)]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nedle"], "did you mean 'needle'?"),
        (["needle", "--max-pair", "3"], "did you mean 'max-pairs'?"),
        (["needle", "--copies", "2"], "--copies is a setting of modular-addition alone"),
        (["modular-addition", "--modulus", "10"], "modulus must be odd, got 10"),
        (["modular-addition", "--copies", "0"], "copies must be 1 to 8, got 0"),
        (["--out", "all.safetensors"], "--out writes one construction: name it"),
        (["needle", "--out", "needle.pt"], "--out must end in .safetensors, got 'needle.pt'"),
        (["gone.safetensors"], "there is no file gone.safetensors"),
    ],
    ids=str,
)
def test_what_is_wrong_is_one_line(arguments, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["construct", *arguments]) == 2
    shown = capsys.readouterr().err
    assert message in shown
    assert shown.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_other_tasks_have_no_construction():
    with pytest.raises(InputError, match="unknown construction 'memorization'"):
        construct(Memorization(keys=4))
    with pytest.raises(InputError, match="the construction of needle has no copies"):
        construct(NEEDLE, copies=1)


def test_the_command_prints_counts_and_writes_weights(tmp_path: Path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    flags = ["--max-pairs", "2", "--values", "3", "--vocabulary", "9", "--test-size", "20", "--json"]
    assert main(["construct", "needle", *flags, "--out", "w.safetensors"]) == 0
    shown = capsys.readouterr()
    (found,) = json.loads(shown.out)["constructions"]
    assert "there is no results/runs.jsonl" in shown.err
    assert (found["width"], found["layers"], found["heads"]) == (8, 2, 1)
    assert [(each["items_of"], each["items"]) for each in found["checks"]] == [("every input", 42), ("test set", 20)]
    assert all(each["wrong"]["float64"] == 0 for each in found["checks"])
    assert main(["construct", "w.safetensors", "--markdown"]) == 0
    assert "| needle | 8 | 2 | every input | 42 | 0 |" in capsys.readouterr().out


def test_weights_that_are_wrong_are_said_to_be(tmp_path: Path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = construct(NEEDLE)
    broken = {**made.parameters, "position": made.parameters["position"].flip(0)}
    replace(made, parameters=broken).save("broken.safetensors")
    assert main(["construct", "broken.safetensors"]) == 2
    assert "error: the weights for needle are wrong on" in capsys.readouterr().err


def test_a_large_task_is_checked_at_a_small_size():
    kinds = [(each.items_of, each.settings, each.items) for each in checks_of(construct("decimal-addition"))]
    assert kinds == [("every input", "digits 2", 8_100), ("test set", "", 4_000)]


def test_the_smallest_sufficient_width_by_hand():
    points = [
        Point("t", "Random", width, values, 0.0, ())
        for width, values in {16: (1.0, 2.0, 100.0), 32: (99.0, 99.0, 4.0), 64: (98.9,), 128: (100.0,)}.items()
    ]
    found = sufficient(points)
    assert (found.width, found.too_narrow, str(found)) == (32, 16, "32 (16 fails)")
    assert str(sufficient(points[1:])) == "32"
    assert str(sufficient([points[2]])) == "none (best 98.9 at 64)"
