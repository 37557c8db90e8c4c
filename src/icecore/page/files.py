"""A report's tables and figures for readers without scripts, and as files of their own."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from icecore.page.sources import Sources
from icecore.paper import EXPERIMENTS, evidence_of
from icecore.paper.claim_table import claim_table_of
from icecore.paper.experiment import draw
from icecore.paper.grid import grid_of
from icecore.paper.scales import PRESETS
from icecore.reporting.table import Table
from icecore.store.files import write_whole
from icecore.store.records import Records, Warn

ENDINGS = ("svg", "png")


def write_files(sources: Sources, data: dict[str, Any], folder: Path, warn: Warn, on_progress: Any) -> list[Path]:
    """Write the measured tables of the paper as CSV and Markdown, and its figures as SVG and PNG; return the files."""
    written: list[Path] = []
    by_name = {path.name: path for path in sources.records}
    for part in data["parts"]:
        evidence = evidence_of(Records(by_name[part["folder"]], warn), part["scale"], PRESETS[0])
        suffix = "" if part["scale"] == "paper" else f"-{part['scale']}"
        for done, (name, experiment) in enumerate(EXPERIMENTS.items(), start=1):
            on_progress("files", done, len(EXPERIMENTS))
            claims = [claim for claim in experiment.claims_of(evidence) if claim.ours is not None]
            if not claims:
                continue
            tables = {f"{name}{suffix}": claim_table_of(name, claims), f"{name}{suffix}-grid": grid_of(claims)}
            for stem, table in tables.items():
                written += write_table(folder / stem, table) if table.rows else []
            for drawn, figure in experiment.figures.items():
                if figure.points(evidence):
                    paths = [folder / f"{drawn}{suffix}.{ending}" for ending in ENDINGS]
                    draw(drawn, figure, name, evidence, paths)
                    written += paths
    return written


def write_table(stem: Path, table: Table) -> list[Path]:
    paths = []
    for ending, text in (("csv", table.csv()), ("md", table.markdown())):
        paths.append(stem.with_name(f"{stem.name}.{ending}"))
        with write_whole(paths[-1]) as stream:
            stream.write(text + "\n")
    return paths


def plain_tables(data: dict[str, Any]) -> list[Table]:
    """Return the verdicts, and each measured table, for readers without scripts."""
    found = []
    for part in data["parts"]:
        preset = part["presets"][0]
        title = f"Verdicts ({part['scale']} scale, preset {preset})"
        verdicts = list(
            dict.fromkeys(v for each in part["experiments"] for v in each["presets"][preset]["counts"]["all"])
        )
        rows = [
            (
                each["heading"],
                each["title"],
                *(str(each["presets"][preset]["counts"]["all"][v] or "") for v in verdicts),
            )
            for each in part["experiments"]
        ]
        found.append(Table(title, ("", "what", *verdicts), rows, left=("", "what")))
        headings = ("", "paper", "ours", "interval", "seeds", "baseline", "verdict")
        for each in part["experiments"]:
            claims = [claim for claim in each["presets"][preset].get("claims", []) if claim.get("ours") is not None]
            if claims:
                found.append(
                    Table(f"{each['heading']}: {each['title']}", headings, list(map(plain_row, claims)), ("",))
                )
    headings = ("", "ours", "spread", "seeds", "baseline")
    for group in data["own"]:
        rows = [(cell["cell"], *plain_numbers(cell, headings[1:])) for cell in group["cells"]]
        found.append(Table(group["task"], headings, rows, left=("",)))
    return found


def plain_row(claim: dict[str, Any]) -> tuple[str, ...]:
    numbers = plain_numbers(claim, ("paper", "ours", "interval", "seeds", "baseline"))
    return (claim["cell"], *numbers, claim["verdict"])


def plain_numbers(claim: dict[str, Any], names: Sequence[str]) -> list[str]:
    shown = {**claim["shown"], "seeds": str(claim.get("n", 0))}
    return [shown.get(name, "") for name in names]
