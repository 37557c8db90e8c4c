"""Language models of Figure 4 and Table 5, trained on a prepared text and found in the records by their settings.

DIFFERS: the paper trains 5 epochs on all of TinyStories, 2 GB. On a smaller text 5 epochs are too few, so we train for
more and report the best validation loss.
"""

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from icecore.paper.cells import PaperCell
from icecore.paper.scales import Scale
from icecore.store.records import Record
from icecore.sweeps.names import TRAINED, CellName

if TYPE_CHECKING:
    from icecore.sweeps.cells import Cell

OTHER_TEXT = "the paper's text is 2 GB of TinyStories, ours is different"


def language_cell(
    scale: Scale,
    kind: str,
    width: int,
    layers: int,
    preset: str,
    is_analyzed: bool = False,
    *,
    trainable: str | None = None,  # default: the kind's
    body: str = "transformer",
    variant: str = "",
) -> PaperCell:
    name, sizes = CellName("language", kind, width, layers, variant), scale.language

    def make() -> "Cell":
        from icecore.models import Llama, Transformer
        from icecore.sweeps.cells import Cell
        from icecore.tasks import Language
        from icecore.training.presets import epochs_in_steps, preset_training, source_of

        task = Language(sizes.folder, sizes.window)
        if body == "llama":
            model = Llama(width, layers, sizes.heads)
        else:
            model = Transformer(width, layers, sizes.heads, init=source_of(preset))
        steps = epochs_in_steps(sizes.epochs, task, sizes.batch)
        warmup_steps = min(preset_training(task, model, preset).warmup_steps, steps // 10)
        training = {"steps": steps, "batch": sizes.batch, "lr": sizes.lr, "warmup_steps": warmup_steps}
        return Cell(name, task, model, trainable or TRAINED[kind], preset, training, is_analyzed)

    return PaperCell(name, scale.name, preset, make)


def of_one_text(records: Iterable[Record], preset: str) -> list[Record]:
    """Return the language-modeling runs on the text with the most runs."""
    init = "paper" if preset == "paper" else "released"
    runs = [
        run
        for run in records
        if run["config"]["task"]["name"] == "language"
        and run["config"]["model"]["name"] == "transformer"
        and run["config"]["model"]["settings"].get("init") == init
        and run["config"].get("trainable") in ("embeddings", "all")
    ]
    texts = Counter(map(digest_of, runs)).most_common(1)
    return [run for run in runs if digest_of(run) == texts[0][0]]


def digest_of(run: Record) -> str:
    return run["config"]["task"]["settings"]["digest"]


def kind_of(run: Record) -> str:
    return "Normal" if run["config"]["trainable"] == "all" else "Random"


def width_of(run: Record) -> int:
    return run["config"]["model"]["settings"]["width"]


def layers_of(run: Record) -> int:
    return run["config"]["model"]["settings"]["layers"]
