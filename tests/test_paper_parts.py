"""`icecore reproduce parts`: language modeling with one part frozen after the other."""

import json
from pathlib import Path

import pytest

from icecore.cli import main
from icecore.models import Llama, ModelDims, Transformer, trained_names
from icecore.paper.parts import BODIES, PARTS, has

ROOT = Path(__file__).parents[1]
DIMS = ModelDims(20, 8)
MODELS = {"transformer": Transformer(width=8, heads=2), "llama": Llama(width=8, heads=2)}


@pytest.mark.parametrize("body", BODIES)
def test_each_arm_freezes_what_its_name_says(body: str):
    every = set(MODELS[body].specs(DIMS))
    frozen = {
        "q, k frozen": (".q.", ".k."),
        "v, out frozen": (".v.", ".out."),
        "attention frozen": (".q.", ".k.", ".v.", ".out."),
        "MLP frozen": (".mlp_in.", ".mlp_out.", ".mlp_gate."),
        "norms frozen": ("norm",),
        "embeddings frozen": ("token", "position", "unembed"),
    }
    for part, words in frozen.items():
        left_out = every - set(trained_names(MODELS[body], DIMS, PARTS[part]))
        assert left_out == {name for name in every if any(word in name for word in words)}, part
    alone = {part for part in PARTS if part.endswith("alone") and has(body, part)}
    assert alone == ({"norms alone"} if body == "llama" else {part for part in PARTS if part.endswith("alone")})


def test_losses_and_predictions_come_from_the_records(tmp_path: Path, capsys: pytest.CaptureFixture):
    """Losses of three arms, made up: frozen queries cost .03 nats, frozen attention .5 less than a frozen MLP."""
    losses = {"all": 2.50, PARTS["q, k frozen"]: 2.53, PARTS["attention frozen"]: 2.80, PARTS["MLP frozen"]: 3.30}
    example = next(
        record
        for record in map(json.loads, (ROOT / "results/runs.jsonl").read_text().splitlines())
        if record["config"]["task"]["name"] == "language" and record["config"]["model"]["settings"]["width"] == 256
    )
    lines = []
    for number, (trainable, loss) in enumerate(losses.items()):
        config = {**example["config"], "trainable": trainable}
        made = {**example, "run": f"{number:012}", "setting": f"{number:012}", "config": config, "best_loss": loss}
        lines.append(json.dumps(made))
    (tmp_path / "runs.jsonl").write_text("\n".join(lines) + "\n")
    assert main(["claims", "parts", "--results", str(tmp_path), "--json"]) == 0
    rows, predictions = (table["rows"] for table in json.loads(capsys.readouterr().out)["tables"]["parts"])
    assert {row[""]: row["transformer"] for row in rows}["MLP frozen"] == "3.300"
    assert [(row["ours"], row[""]) for row in predictions] == [("0.03", "held"), ("-0.50", "failed")]
