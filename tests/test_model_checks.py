"""Checks of a body in a file before it trains: looks ahead, drawn numbers, another text than was loaded."""

from typing import Any

import numpy as np
import pytest
import torch
from own_bodies import LOOKING, SHIFTED
from small_runs import SHORT, TASK

import icecore as ice
from icecore.cli import main
from icecore.errors import InputError, Interrupted
from icecore.models import ModelDims, find_model
from icecore.models.check import require_model
from icecore.user_code import reraise_user_error


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "        return {\n",
            "        return None\n        return {\n",
            "specs of Looking must return a dict of ParameterSpec by name",
        ),
        (
            "        return {\n",
            "        return {1: ParameterSpec((2,), 'mix')}\n        return {\n",
            "a dict of ParameterSpec by name",
        ),
        (
            "        return {\n",
            "        return {'token': (3, 3)}\n        return {\n",
            "a dict of ParameterSpec by name",
        ),
        ('("token", "unembed", "mix")', "(1, 2)", "Looking has no roles"),
    ],
)
def test_a_body_whose_parameters_are_none_is_told_so(tmp_path, capsys, old, new, message):
    text = LOOKING.replace("SCALE", "0.0").replace("FIRST", "1")
    assert text.count(old) == 1
    (tmp_path / "mine.py").write_text(text.replace(old, new))
    assert main(["train", "needle", "--model", f"{tmp_path / 'mine.py'}:Looking", "--out", str(tmp_path / "runs")]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("scale", ["0.02", "0.0"])
@pytest.mark.parametrize("first", ["1", "5"])
def test_small_and_distant_looks_ahead_are_seen_too(tmp_path, scale, first):
    """A gate may begin at zero and open in training."""
    file = tmp_path / "looking.py"
    file.write_text(LOOKING.replace("SCALE", scale).replace("FIRST", first))
    addition = ice.tasks.DecimalAddition(digits=4, test_size=50)
    with pytest.raises(InputError, match="Looking looks ahead"):
        ice.train(addition, find_model(f"{file}:Looking")(), **SHORT)


@pytest.mark.parametrize("line", ["later[:, 0] = own[:, own.shape[1] // 2]", "later[:, -2] = own[:, -1] / 1000"])
def test_one_look_ahead_at_one_place_is_seen(tmp_path, line):
    """In the first half at what is not the last token, and in the second half, by a thousandth."""
    file = tmp_path / "looking.py"
    text = LOOKING.replace("SCALE", "0.0").replace(
        "torch.cat([own[:, FIRST:], torch.zeros_like(own[:, :FIRST])], dim=1)", "0 * own"
    )
    file.write_text(
        text.replace('later * parameters["gate"]', "later").replace(
            "        return own", f"        {line}\n        return own"
        )
    )
    with pytest.raises(InputError, match="Looking looks ahead"):
        ice.train(ice.tasks.DecimalAddition(digits=4, test_size=50), find_model(f"{file}:Looking")(), **SHORT)


@pytest.mark.parametrize(
    "drawn",
    [
        "torch.randn(16)",
        "torch.tensor(numpy.random.randn(16)).float()",
        "torch.full((16,), __import__('random').random())",
    ],
)
def test_a_file_that_draws_its_body_when_it_is_loaded_is_refused(tmp_path, drawn):
    file = tmp_path / "drawn.py"
    text = LOOKING.replace("SCALE", "0.0").replace('later * parameters["gate"]', "MIX")
    file.write_text(text.replace("FIRST", "1").replace("@dataclass", f"import numpy\nMIX = {drawn}\n\n@dataclass"))
    with pytest.raises(InputError, match="different model each time its file is loaded"):
        ice.train(TASK, find_model(f"{file}:Looking")(), **SHORT)


def test_a_file_that_draws_its_specs_when_it_is_loaded_is_refused(tmp_path):
    file = tmp_path / "drawn.py"
    text = LOOKING.replace("SCALE", "0.0").replace("FIRST", "1").replace('"mix", self.scale', '"mix", START')
    file.write_text(text.replace("@dataclass", "START = float(torch.rand(1))\n\n@dataclass"))
    with pytest.raises(InputError, match="has different specs each time"):
        ice.train(TASK, find_model(f"{file}:Looking")(), **SHORT)


def test_a_file_edited_after_it_was_loaded_trains_as_it_was_loaded(tmp_path):
    file = tmp_path / "mine.py"
    losses = []
    for after in ("self.by", "2 * hidden.sum(-1, keepdim=True) + self.by"):
        file.write_text(SHIFTED)
        model: Any = find_model(f"{file}:Shifted")
        file.write_text(SHIFTED.replace("+ self.by", f"* {after}"))
        losses.append(ice.train(TASK, model(width=16), **SHORT).result["loss"])
    assert losses[0] == losses[1]


def test_a_parameter_that_must_not_be_negative_is_no_mistake(tmp_path):
    file = tmp_path / "positive.py"
    text = (
        LOOKING.replace("SCALE", "0.0")
        .replace("FIRST", "1")
        .replace('"mix", self.scale', '"mix", lambda shape, _: torch.ones(shape)')
    )
    file.write_text(text.replace('parameters["gate"]', 'parameters["gate"].sqrt()'))
    ice.train(TASK, find_model(f"{file}:Looking")(), **SHORT)


def test_the_check_of_a_body_leaves_random_numbers_as_they_were(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(SHIFTED)
    model: Any = find_model(f"{file}:Shifted")
    before = torch.get_rng_state(), str(np.random.get_state())
    require_model(model(width=16), ModelDims(40, 7), 7, may_look_ahead=False)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert str(np.random.get_state()) == before[1]


@pytest.mark.parametrize("error", [Interrupted("after step 3"), BrokenPipeError("no reader"), InputError("a rule")])
def test_what_is_not_of_the_users_code_passes_as_it_is(error):
    with pytest.raises(type(error)) as caught, reraise_user_error("mine.py failed"):
        raise error
    assert caught.value is error
