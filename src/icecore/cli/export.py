"""`icecore export`: one seed as a model of another library."""

from enum import StrEnum
from pathlib import Path

import typer

from icecore.cli.output import say
from icecore.cli.run_folders import RUN, TRUST
from icecore.errors import InputError


class Library(StrEnum):
    huggingface = "huggingface"


def command(
    run: Path = RUN,
    folder: Path = typer.Argument(..., metavar="DIR", help="Where to write the model."),
    format: Library = typer.Option(
        Library.huggingface, help="huggingface: a GPT2LMHeadModel, LlamaForCausalLM or MambaForCausalLM."
    ),
    seed: int | None = typer.Option(None, help="Which seed. Default: the run's first."),
    trust: bool = TRUST,
) -> None:
    """Write one seed as a model of Hugging Face transformers.

    [bold]Examples[/bold]

    icecore export runs/needle/0123456789ab needle-gpt2
    icecore export RUN DIR --seed 3

    AutoModelForCausalLM.from_pretrained(DIR) loads it.
    """
    import safetensors
    import torch

    from icecore.models.huggingface import to_huggingface_tokenizer
    from icecore.store import filled_whole
    from icecore.tasks import Language
    from icecore.text import load_tokenizer
    from icecore.text.formats import END
    from icecore.training import RunFolder, index_of

    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} is not empty; name a new folder")
    config, population = RunFolder(run, trust).load(torch.device("cpu"))
    chosen = config.seeds[0] if seed is None else seed
    index = index_of(chosen, config.seeds)
    network = config.model.to_huggingface(config.dims, population.parameters(index))
    silence_transformers()
    tokenizer = None
    if isinstance(config.task, Language):
        tokenizer = to_huggingface_tokenizer(load_tokenizer(config.task.text.folder), END)
        for settings in (network.config, network.generation_config):
            settings.eos_token_id = settings.bos_token_id = config.task.text.end_token
    with filled_whole(folder) as path:
        try:
            network.save_pretrained(path)
            if tokenizer is not None:
                tokenizer.save_pretrained(path)
        except safetensors.SafetensorError as error:  # safetensors raises this for an OSError
            raise OSError(str(error)) from error
    say(f"seed {chosen} of {run} to {folder}, as {format}")


def silence_transformers() -> None:
    """Turn off its progress bar, which moves the cursor on a pipe too."""
    from transformers.utils import logging

    logging.disable_progress_bar()
