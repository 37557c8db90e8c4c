"""Table 6: parameter counts of each part of a transformer of width 1024. SOURCE: Zhong & Andreas, NeurIPS 2024."""

from dataclasses import replace

from icecore.paper.evidence import Evidence
from icecore.paper.experiment import Experiment
from icecore.paper.settings import known_setting
from icecore.reporting.claim import Claim, verdict_of

COLUMNS = ("E_token", "E_pos", "U", "F")
COUNTS = {  # exact, so without a tolerance
    "modular-addition": (99_328, 5_120, 99_328, 25_194_496),
    "needle": (262_144, 102_400, 262_144, 25_194_496),
    "decimal-addition": (31_744, 40_960, 31_744, 25_194_496),
    "parentheses": (4_096, 81_920, 4_096, 25_194_496),
}
DIFFERS = {"modular-addition": "the paper's row has 97 tokens; its text and the scripts have 199"}


def claims(experiment: Experiment, _evidence: Evidence) -> list[Claim]:
    found: list[Claim] = []
    for task, printed in COUNTS.items():
        for part, theirs, count in zip(COLUMNS, printed, counts_of(task), strict=True):
            name, verdict = f"{task}, {part}", verdict_of(count, count == theirs)
            claim = Claim(
                experiment.name, name, theirs, count, (), None, "0", "counts are exact", verdict, place=(task, part)
            )
            found.append(claim if verdict == "reproduced" else replace(claim, explanation=DIFFERS[task]))
    return found


def counts_of(task: str) -> tuple[int, int, int, int]:
    """Return the number of parameters of the token and position embeddings, the unembedding and the body."""
    text = known_setting(f"parameter counts: {task}", lambda: " ".join(map(str, counted(task))))
    token, position, unembed, body = map(int, text.split())
    return token, position, unembed, body


def counted(task: str) -> tuple[int, ...]:
    from icecore.models import Transformer, count_parameters
    from icecore.tasks import make_task
    from icecore.training.presets import preset_dims

    counts = count_parameters(Transformer(), preset_dims(make_task(task)))
    body = sum(counts[part] for part in ("attention", "mlp", "norm"))
    return counts["token"], counts["position"], counts["unembed"], body


TABLE6 = Experiment("table6", "parameter counts", lambda *_: [], claims)  # nothing to train
