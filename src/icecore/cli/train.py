"""`icecore train`: a population of seeds of one model on one task."""

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from icecore.cli.bodies import find_body, make_body
from icecore.cli.options import (
    BATCH,
    CLIP,
    DEVICE,
    EMBEDDING_RANK,
    FORCE,
    GAIN,
    HEADS,
    INIT,
    LAYERS,
    LOG,
    LR,
    MODEL_PANEL,
    OUT,
    OUTPUT_PANEL,
    POSITION_INIT,
    POSITIONS,
    PRECISION,
    RANK_BASIS,
    RANK_OF,
    RUN_PANEL,
    SCHEDULE,
    STEPS,
    TASK,
    TASK_PRESET,
    TRAINING_PANEL,
    WARMUP_STEPS,
    WEIGHT_DECAY,
    WIDTH,
)
from icecore.cli.output import JSON_OPTION, say_aside
from icecore.cli.progress import training_progress
from icecore.cli.run_report import report
from icecore.cli.settings import settings_given
from icecore.cli.starts import (
    BODY_FROM,
    EMBEDDINGS_FROM,
    FROM,
    RESCALE,
    SHIFT,
    TRUST_START,
    model_of_start,
    require_agreement,
    task_of_start,
)
from icecore.cli.sweeps import MOST_SEEDS, warn, warn_of_width
from icecore.errors import InputError, require

if TYPE_CHECKING:
    from icecore.models import Model, ModelDims
    from icecore.training.rank import EmbeddingRank


def command(
    context: typer.Context,
    task: str = TASK,
    preset: str = TASK_PRESET,
    model: str = typer.Option(
        "transformer",
        help="transformer, linearized (attention is a prefix sum: Table 9), lstm, gru, llama, mamba, linear-attention, "
        "deltanet, FILE.py:CLASS, your own body, or hf:CONFIG, a causal language model of transformers: a config class "
        "(hf:MambaConfig) or a folder (hf:./my-llama). Their settings are flags too, such as --attention random.",
        rich_help_panel=MODEL_PANEL,
    ),
    width: int | None = WIDTH,
    layers: int | None = LAYERS,
    heads: int | None = HEADS,
    positions: int | None = POSITIONS,
    init: str | None = INIT,
    gain: float | None = GAIN,
    position_init: str | None = POSITION_INIT,
    embedding_rank: int | None = EMBEDDING_RANK,
    rank_basis: str = RANK_BASIS,
    rank_of: str = RANK_OF,
    trainable: str = typer.Option(
        "embeddings",
        help="What trains; all else is frozen. embeddings, all, unembed, embed, token+unembed, or roles with commas: "
        "token, position, unembed, attention, mlp, norm; finer: q, k, v, out, mlp_in, mlp_out; across roles: norms, "
        "biases, norms+biases.",
        rich_help_panel=TRAINING_PANEL,
    ),
    phases: str | None = typer.Option(
        None,
        metavar="WHAT:STEPS,...",
        help="Train different parts one after the other: embeddings:5000,all:5000. all:5000:1e-4 also sets the rate.",
        rich_help_panel=TRAINING_PANEL,
    ),
    from_run: Path | None = FROM,
    body_from: Path | None = BODY_FROM,
    embeddings_from: Path | None = EMBEDDINGS_FROM,
    shift: int = SHIFT,
    rescale: str | None = RESCALE,
    trust: bool = TRUST_START,
    steps: int | None = STEPS,
    batch: int | None = BATCH,
    lr: float | None = LR,
    weight_decay: float | None = WEIGHT_DECAY,
    warmup_steps: int | None = WARMUP_STEPS,
    schedule: str | None = SCHEDULE,
    clip: float | None = CLIP,
    accumulate: int = typer.Option(
        1,
        help="Compute each batch in this many parts: less memory, the same result.",
        rich_help_panel=TRAINING_PANEL,
    ),
    seeds: str | None = typer.Option(
        None,
        help="How many seeds (10), or which (0,3,7; 3, is seed 3 alone). They train at once. Default: 1, or those of "
        "--from.",
        rich_help_panel=RUN_PANEL,
    ),
    data_seed: int = typer.Option(
        0, help="Seed of the training data, which all seeds share.", rich_help_panel=RUN_PANEL
    ),
    device: str = DEVICE,
    force: bool = FORCE,
    precision: str = PRECISION,
    out: Path = OUT,
    resume: bool = typer.Option(
        False, "--resume", help="Continue an unfinished run of this config.", rich_help_panel=RUN_PANEL
    ),
    overwrite: bool = typer.Option(
        False, "--overwrite", help="Train again, even if the run exists.", rich_help_panel=RUN_PANEL
    ),
    with_body: bool = typer.Option(
        False, "--with-body", help="Save the frozen weights too, not only their seed.", rich_help_panel=RUN_PANEL
    ),
    checkpoint_every: int | None = typer.Option(
        None, help="Steps between checkpoints. Default: a twentieth of the run.", rich_help_panel=RUN_PANEL
    ),
    checkpoint_minutes: float = typer.Option(
        5.0, help="Minutes between checkpoints, at most.", rich_help_panel=RUN_PANEL
    ),
    evaluate_every: int | None = typer.Option(
        None,
        help="Steps between evaluations of all test items. Default: a tenth of the run; where that would take more "
        "than a fifth of its time, on at most 256 of them.",
        rich_help_panel=OUTPUT_PANEL,
    ),
    snapshots: int | None = typer.Option(
        None,
        min=1,
        help="Save the weights this many times per phase, more often at its start, for icecore track.",
        rich_help_panel=RUN_PANEL,
    ),
    probe: list[str] = typer.Option(
        [],
        metavar="FILE.py:FUNCTION",
        help="A measurement of yours, taken before training and at every evaluation. Repeatable.",
        rich_help_panel=OUTPUT_PANEL,
    ),
    log: list[str] = LOG,
    json: bool = JSON_OPTION,
) -> None:
    """Train parts of a model, freeze the rest, and save the run.

    [bold]Examples[/bold]

    icecore train needle --width 64 --init matched --steps 1000 --batch 128
    icecore train needle --max-pairs 4 --trainable all --seeds 3
    icecore train my_task.py:MyTask --model my_body.py:MyBody --width 128
    icecore train needle --from RUN --trainable all --steps 400 --lr 1e-3
    icecore train needle --embedding-rank 16 --rank-basis learned

    Settings of the task and of the model are flags too. A killed run continues with --resume, on the CPU to the same
    bits; a complete run is shown, not repeated. To split every batch over several GPUs:
    torchrun --nproc-per-node 8 -m icecore train needle (tested on CPUs only).
    """
    from icecore.models import is_shipped
    from icecore.training import Intervals, RunFolder, config_of, pick_device, pick_precision, train_config
    from icecore.training.advice import advice_on
    from icecore.training.from_run import source_of
    from icecore.training.probes import named_probes
    from icecore.training.snapshots import snapshot_steps
    from icecore.training.trackers import following, require_trackers
    from icecore.user_code import load_function, reraise_user_error

    require_trackers(log)
    source = source_of(from_run, body_from, embeddings_from, shift=shift, rescale=rescale, trust=trust)
    if source is not None and positions is None:
        positions = source.positions
    like = model_of_start(source, is_given(context, "model"))
    model_class = find_body(model) if like is None else type(like)
    of_task, of_model = settings_given(context, task, model_class)
    made = task_of_start(task, preset, of_task, source)
    of_any = {"width": width, "layers": layers, "heads": heads, "init": init, "gain": gain}
    given = of_any | {"position_init": position_init} | of_model
    if source is None or like is None or source.take == "embeddings":
        chosen = make_body(made, preset, model if like is None else like.name, model_class, given, like, positions)
    else:
        named = {"name": model} if is_given(context, "model") else {}
        require_agreement(named | given, like, source.name)
        chosen = like
    training = explicit_options(
        steps=steps,
        batch=batch,
        lr=lr,
        weight_decay=weight_decay,
        warmup_steps=warmup_steps,
        schedule=schedule,
        clip=clip,
    )
    settings = {"preset": preset, "data_seed": data_seed, "positions": positions, **training}
    if phases is not None:
        require(steps is None, "--phases has the steps of each phase: drop --steps")
        require(not is_given(context, "trainable"), "--phases says what trains: drop --trainable")
        settings["phases"] = phases
    where = pick_device(device)
    chosen_seeds = source.seeds if source is not None and seeds is None else parse_seeds(seeds or "1")
    config = config_of(
        made,
        chosen,
        trainable,
        chosen_seeds,
        precision=pick_precision(precision, where, chosen),
        source=source,
        embedding_rank=embedding_rank,
        rank_basis=rank_basis,
        rank_of=[role.strip() for role in rank_of.split(",")],
        **settings,
    )
    probes = named_probes(load_function(each, "probe")[0] for each in probe)
    is_first = os.environ.get("RANK", "0") == "0"  # only rank 0 of torchrun prints
    is_there = RunFolder.of(config, out).is_complete and not overwrite
    if is_first:
        for phase in config.phases:
            announce(chosen, config.dims, phase.trainable, config.rank)
        for text in advice_on(config, source, [*training, *(["steps"] if phases else [])]) if not is_there else ():
            warn(text)
        warn_of_width(chosen.width, device, "try --width 64 --init matched")
    with (
        training_progress(f"{made.name} {phases or trainable}") if is_first else contextlib.nullcontext() as watch,
        contextlib.nullcontext() if is_shipped(chosen) else reraise_user_error(f"{model} failed in training"),
        following(log if is_first else [], out) as followed,
    ):
        chosen_steps = snapshot_steps(config, snapshots)
        intervals = Intervals.of(config.steps, None, evaluate_every, checkpoint_every, checkpoint_minutes, chosen_steps)
        run = train_config(
            config,
            where,
            intervals,
            out,
            resume,
            overwrite,
            with_body,
            followed(config, watch),
            accumulate,
            probes,
            force,
        )
    if is_first:
        if is_there:
            say_aside("the run is complete and was not trained again; --overwrite trains it again")
        report(run, json)


def is_given(context: typer.Context, name: str) -> bool:
    """Tell whether the user gave this flag."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def explicit_options(**given: Any) -> dict[str, Any]:
    """Return the options that were given; the preset sets the others."""
    return {name: value for name, value in given.items() if value is not None}


def announce(model: "Model", dims: "ModelDims", trainable: str, rank: "EmbeddingRank | None" = None) -> None:
    """Print on standard error what trains and what is frozen."""
    from icecore.models import trained_counts

    counts, specs = trained_counts(model, dims, trainable), model.specs(dims)
    frozen = sum(spec.size for spec in specs.values()) - sum(counts.values())
    if rank is not None:  # fewer numbers train, in their place
        for name in rank.names(model, dims):
            counts[specs[name].role] -= specs[name].size
        for spec in rank.specs(model, dims).values():
            counts[spec.role] += spec.size
    roles = ", ".join(f"{role} {count:,}" for role, count in counts.items())
    say_aside(f"{sum(counts.values()):,} parameters train ({roles}), {frozen:,} are frozen")


def parse_seeds(text: str) -> tuple[int, ...]:
    """Read seeds: `10` is 0 to 9, `0,3,7` is those, `3,` is seed 3 alone."""
    try:
        numbers = [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise InputError(f"--seeds must be a number of seeds (10) or a list (0,3,7), got '{text}'") from None
    if "," in text:
        return tuple(numbers)
    require(bool(numbers) and numbers[0] >= 1, f"--seeds must be at least 1, got '{text}'; '0,' is seed 0 alone")
    require(numbers[0] <= MOST_SEEDS, f"--seeds must be at most {MOST_SEEDS:,}, got '{text}'; '{text},' is that seed")
    return tuple(range(numbers[0]))
