"""Flags of `icecore train` that start from a finished run."""

from typing import TYPE_CHECKING, Any

import typer

from icecore.cli.settings import checked_task
from icecore.errors import require

if TYPE_CHECKING:
    from icecore.models import Model
    from icecore.tasks import Task
    from icecore.training.from_run import Source

START_PANEL = "Start"
FROM = typer.Option(
    None,
    "--from",
    metavar="RUN",
    help="Start from a finished run: its body and its embeddings, with a new optimizer. Model, seeds and the task's "
    "settings are that run's; steps, batch and rate are not.",
    rich_help_panel=START_PANEL,
)
BODY_FROM = typer.Option(
    None,
    "--body-from",
    metavar="RUN",
    help="Start with the body of a finished run and new embeddings, for any task. The model is that run's.",
    rich_help_panel=START_PANEL,
)
EMBEDDINGS_FROM = typer.Option(
    None,
    "--embeddings-from",
    metavar="RUN",
    help="Start with the embeddings of a finished run on a body of this run's own: with other --seeds and --shift, or "
    "with other settings of the model. What is not given is that run's.",
    rich_help_panel=START_PANEL,
)
SHIFT = typer.Option(
    0, help="Seed s starts from that run's seed s - SHIFT. Default: seeds pair up.", rich_help_panel=START_PANEL
)
RESCALE = typer.Option(
    None,
    metavar="ROLES",
    help="Give embeddings that are taken their norms at initialization: unembed changes no answer, embeddings does.",
    rich_help_panel=START_PANEL,
)
TRUST_START = typer.Option(
    False,
    "--trust",
    help="Execute the task.py or model.py that came with that run; read it first. Yours need no flag.",
    rich_help_panel=START_PANEL,
)


def task_of_start(name: str, preset: str, settings: dict[str, str], source: "Source | None") -> "Task":
    """Return the task; if its embeddings come from a run of the same task, with that run's settings."""
    from icecore.tasks import find_task
    from icecore.tasks.loading import setting_fields, with_settings

    if source is None or source.take == "body" or find_task(name).name != source.config.task.name:
        return checked_task(name, preset, settings)
    stored = source.config.task
    made = checked_task(name, preset, {})
    own = {field.name: getattr(stored, field.name) for field in setting_fields(type(stored))}
    return with_settings(with_settings(made, own), settings)


def model_of_start(source: "Source | None", is_other: bool) -> "Model | None":
    """Return the model that a run starts from, unless it only gives embeddings to a model of another kind."""
    if source is None or (source.take == "embeddings" and is_other):
        return None
    return source.config.model


def require_agreement(given: dict[str, Any], model: "Model", name: str) -> None:
    """Raise if settings are given that the model of the run to start from does not have."""
    for setting, value in given.items():
        stored, word = getattr(model, setting, None), "model" if setting == "name" else setting.replace("_", "-")
        agrees = value is None or str(stored) == str(value)
        require(agrees, f"{name} has {word} {stored}, not {value}: drop --{word}, or train from the seeds")
