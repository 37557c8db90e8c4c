"""`icecore sample`: sample text from a language model."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from icecore.cli.output import JSON_OPTION, print_json, say, say_aside
from icecore.cli.run_folders import RUN, TRUST
from icecore.errors import InputError, require

if TYPE_CHECKING:
    from collections.abc import Iterator

    from icecore.tasks import Language
    from icecore.text import TextOfTokens
    from icecore.training import RunConfig


def command(
    run: Path = RUN,
    prompt: str = typer.Option("Once upon a time", help="Start of the text; '' for none."),
    tokens: int = typer.Option(200, help="Largest number of new tokens."),
    temperature: float = typer.Option(1.0, help="Below 1 favors likely tokens; 0 takes the most likely one."),
    top_p: float = typer.Option(1.0, help="Sample from the most likely tokens with this total probability."),
    seed: int = typer.Option(0, help="Sampling seed: the same seed gives the same text."),
    which: int | None = typer.Option(None, metavar="SEED_OF_RUN", help="Which seed of the run. Default: its first."),
    count: int = typer.Option(1, help="Number of texts."),
    device: str = typer.Option("auto", help="auto, cpu or cuda."),
    trust: bool = TRUST,
    json: bool = JSON_OPTION,
) -> None:
    """Continue a prompt with a language model.

    [bold]Examples[/bold]

    icecore sample runs/language/0123456789ab
    icecore sample RUN --prompt "Mia had a kite" --temperature 0.7 --count 3

    The prompt starts a new document. A text ends at the model's end token, after --tokens, or at the last trained
    position; standard error says which. On a terminal, tokens appear as they are sampled.
    """
    from icecore.models.sampling import Sampling, continuations
    from icecore.process import configure_process
    from icecore.text import TextOfTokens, load_tokenizer
    from icecore.text.formats import END
    from icecore.training import RunFolder, index_of, pick_device

    require(tokens >= 1, f"--tokens must be at least 1, got {tokens}")
    require(count >= 1, f"--count must be at least 1, got {count}")
    sampling = Sampling(temperature, top_p, seed)
    require(is_text(prompt), "--prompt is not UTF-8; give it in UTF-8")
    configure_process()
    config, population = RunFolder(run, trust).load(pick_device(device))
    task = language_of(config)
    chosen = config.seeds[0] if which is None else which
    index = index_of(chosen, config.seeds)
    tokenizer = load_tokenizer(task.text.folder)
    end_token, positions = task.text.end_token, task.max_length
    begun = [end_token, *tokenizer.encode(prompt, add_special_tokens=False).ids]
    require(
        len(begun) <= positions,
        f"the prompt has {len(begun) - 1} tokens, and the run's window leaves room for {positions - 1}; shorten it",
    )
    steps = continuations(
        config.model,
        population.parameters(index),
        begun,
        sampling,
        count=count,
        tokens=tokens,
        positions=positions,
        end_token=end_token,
    )
    is_live = sys.stdout.isatty() and count == 1 and not json
    if is_live:
        say(prompt, end="", flush=True)
    texts = written(steps, [TextOfTokens(tokenizer) for _ in range(count)], end_token, is_live)
    samples = [
        {"text": text, "tokens": length, "stopped": reason(ended, length, tokens)} for text, length, ended in texts
    ]
    if json:
        print_json({"run": str(run), "seed_of_run": chosen, "prompt": prompt, "samples": samples})
        return
    if not is_live:
        say(f"\n{END}\n".join(prompt + str(sample["text"]) for sample in samples))
    for sample in samples:
        say_aside(f"{sample['tokens']} tokens, stopped by {sample['stopped']}")


def is_text(prompt: str) -> bool:
    """Tell whether the prompt is valid UTF-8; Python turns other bytes of the shell into lone surrogates."""
    return prompt == prompt.encode(errors="replace").decode()


def language_of(config: "RunConfig") -> "Language":
    from icecore.tasks import Language

    if not isinstance(config.task, Language):
        raise InputError(f"only runs of language write text; this is a run of {config.task.name}")
    return config.task


def written(
    steps: "Iterator[list[int | None]]", readers: "list[TextOfTokens]", end_token: int, is_live: bool
) -> list[tuple[str, int, bool]]:
    """Return each text, its number of tokens, and whether the model ended it; `is_live` prints while sampling."""
    pieces: list[list[str]] = [[] for _ in readers]
    lengths, ended = [0] * len(readers), [False] * len(readers)

    def add(index: int, piece: str) -> None:
        pieces[index].append(piece)
        if is_live:
            say(piece, end="", flush=True)

    for step in steps:
        for index, token in enumerate(step):
            if token == end_token:
                ended[index] = True
            elif token is not None:
                lengths[index] += 1
                add(index, readers[index].add(token))
    for index, reader in enumerate(readers):
        add(index, reader.end())
    if is_live:
        say()
    return list(zip(map("".join, pieces), lengths, ended, strict=True))


def reason(ended: bool, length: int, tokens: int) -> str:
    if ended:
        return "the end of the text"
    return "--tokens" if length == tokens else "the last position that was trained"
