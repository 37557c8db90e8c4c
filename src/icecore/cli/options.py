"""Flags that several commands share, and the panels of their help."""

from enum import StrEnum
from pathlib import Path

import typer

TASK_PANEL, MODEL_PANEL, TRAINING_PANEL, RUN_PANEL, OUTPUT_PANEL = "Task", "Model", "Training", "Run", "Output"

TASK = typer.Argument(..., help="A task's name (see: icecore tasks) or FILE.py:CLASS, a task of yours.")
TASK_PRESET = typer.Option(
    "released",
    help="Whose settings: released, unfiltered, reconstructed, paper; see icecore tasks TASK.",
    rich_help_panel=TASK_PANEL,
)

WIDTH = typer.Option(None, help="Width of the model. Default: the paper's, mostly 1024.", rich_help_panel=MODEL_PANEL)
LAYERS = typer.Option(None, help="Number of layers. Default: the paper's, mostly 2.", rich_help_panel=MODEL_PANEL)
HEADS = typer.Option(None, help="Attention heads. Default: the scripts', mostly 4.", rich_help_panel=MODEL_PANEL)
INIT = typer.Option(
    None,
    help="released, paper, matched (at every width the gain of width 1024), or matched-all (the unembedding too).",
    rich_help_panel=MODEL_PANEL,
)
GAIN = typer.Option(None, help="Factor on the initial matrices of the body.", rich_help_panel=MODEL_PANEL)
POSITION_INIT = typer.Option(
    None, help="Initial position embeddings: normal or sinusoidal.", rich_help_panel=MODEL_PANEL
)
POSITIONS = typer.Option(
    None, help="Number of position embeddings. Default: the scripts'.", rich_help_panel=MODEL_PANEL
)

STEPS = typer.Option(None, help="Training steps. Default: the preset's.", rich_help_panel=TRAINING_PANEL)
BATCH = typer.Option(None, help="Items per step. Default: the preset's.", rich_help_panel=TRAINING_PANEL)
LR = typer.Option(None, help="Peak learning rate. Default: the preset's.", rich_help_panel=TRAINING_PANEL)
WEIGHT_DECAY = typer.Option(None, help="AdamW's weight decay. Default: the preset's.", rich_help_panel=TRAINING_PANEL)
WARMUP_STEPS = typer.Option(None, help="Steps of linear warm-up. Default: 500.", rich_help_panel=TRAINING_PANEL)
SCHEDULE = typer.Option(
    None, help="cosine or constant, after the warm-up. Default: cosine.", rich_help_panel=TRAINING_PANEL
)
CLIP = typer.Option(None, help="Clip each seed's gradient to this norm. Default: 1.", rich_help_panel=TRAINING_PANEL)

EMBEDDING_RANK = typer.Option(
    None,
    min=1,
    help="Rank of the embeddings: E = A P, where A has this many columns. To compare ranks, multiply --lr by "
    "sqrt(width / rank).",
    rich_help_panel=MODEL_PANEL,
)
RANK_BASIS = typer.Option(
    "random",
    help="P: random and fixed, learned, or body (what the body reads and writes most). subspace: not a rank, but all "
    "these embeddings in one random subspace around their start, with as many numbers.",
    rich_help_panel=MODEL_PANEL,
)
RANK_OF = typer.Option(
    "token,position,unembed", help="Which embeddings --embedding-rank limits.", rich_help_panel=MODEL_PANEL
)

DEVICE = typer.Option("auto", help="auto, cpu or cuda.", rich_help_panel=RUN_PANEL)
FORCE = typer.Option(
    False, "--force", help="Train even if the memory that is free does not seem to suffice.", rich_help_panel=RUN_PANEL
)
PRECISION = typer.Option(
    "auto",
    help="Precision of the body: fp32, tf32 or bf16; trained parameters are fp32. auto: bf16 on a GPU, else fp32.",
    rich_help_panel=RUN_PANEL,
)


class Executor(StrEnum):
    """Executor of a sweep."""

    local = "local"
    ray = "ray"


EXECUTOR = typer.Option(
    Executor.local, help="local, or ray: on a Ray cluster (needs the extra ray).", rich_help_panel=RUN_PANEL
)
ADDRESS = typer.Option(
    None, help="For ray: HOST:PORT of a cluster, or auto. Default: start one.", rich_help_panel=RUN_PANEL
)
GPUS = typer.Option(
    1.0, min=0.0, help="For ray: GPUs per population; with 0.25, four share a GPU.", rich_help_panel=RUN_PANEL
)
LOG = typer.Option(
    [],
    "--log",
    help="Also log curves to tensorboard (in OUT/tensorboard) or wandb (offline with WANDB_MODE=offline). Repeatable; "
    "needs the extra of that name.",
    rich_help_panel=OUTPUT_PANEL,
)
OUT = typer.Option(
    Path("runs"), help="Runs are saved in OUT/TASK/ID; the ID is a hash of the config.", rich_help_panel=RUN_PANEL
)
