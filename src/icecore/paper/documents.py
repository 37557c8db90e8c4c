"""Fill the tables of results into README and docs: `python -m icecore.paper.documents FILE...`.

A table stands between two comments, the first of which names it. The rest of the file does not change.
"""

import re
import sys
from pathlib import Path

from icecore.errors import InputError, unknown_name
from icecore.paper import EXPERIMENTS, claims_of, evidence_of
from icecore.paper.appendix_f import sufficient_widths, widths_table
from icecore.paper.differences import unexplained
from icecore.paper.directions import directions_table
from icecore.paper.grid import grid_of, preset_grid_of
from icecore.paper.outcomes import outcomes
from icecore.paper.settings import remembered_settings
from icecore.paper.summary import summary_of
from icecore.reporting.bench_tables import bench_table
from icecore.reporting.claim import seeds_of
from icecore.reporting.table import Table
from icecore.store.files import read_json
from icecore.store.records import Records

BEGIN = re.compile(r"<!-- results of ([\w./-]+)( by preset| alone| at laptop scale)?, made by `make readme` -->")
END = "<!-- end of results -->"
MOST_ROWS = 40  # of a table in a page


def results_table(name: str, results: Path) -> str:
    """Return a table or figure, its number of seeds, and the reasons for differences from the paper."""
    claims = claims_of([name], "paper", "released", Records(results))
    seeds = seeds_of(claims)
    if not seeds:
        return "Nothing is measured so far."
    text = {"1": "One seed each. "}.get(seeds, f"Medians of {seeds} seeds. ")
    missing = sum(claim.n == 0 for claim in claims)
    if missing:
        text += f"{len(claims) - missing} of the {len(claims)} cells are measured so far, the others have a dash. "
    differences = [
        f"- {claim.cell}: {claim.remarks or unexplained(claim.n)}." for claim in claims if claim.verdict == "differs"
    ]
    undecided = sum(claim.verdict == "undecided" for claim in claims)
    if undecided:
        text += f"{undecided} {'is' if undecided == 1 else 'are'} undecided. "
    if differences:
        verb = "differs" if len(differences) == 1 else "differ"
        text += f"{len(differences)} {verb} from the paper by more than the tolerance, which was fixed in advance:\n"
    return "\n".join([grid_of(claims).markdown(), "", text.rstrip(" "), *differences])


def laptop_tables(name: str, results: Path) -> str:
    """Return an experiment's own tables at laptop scale, whose records are in `results/laptop`; long ones are named."""
    experiment, evidence = EXPERIMENTS[name], evidence_of(Records(results / "laptop"), "laptop")
    claims = experiment.claims_of(evidence)
    seeds = seeds_of(claims)
    if not seeds:
        return "Nothing is measured so far at laptop scale."
    measured = sum(claim.n > 0 for claim in claims)
    first = f"Small tasks and narrow bodies on a CPU, {seeds} {'seed' if seeds == '1' else 'seeds'} each"
    rest = f"; {measured} of the {len(claims)} rows are measured so far" if measured < len(claims) else ""
    tables = [grid_of(claims)] if experiment.tables is None else experiment.tables(experiment, evidence)
    return "\n\n".join([f"{first}{rest}.", *(part for table in tables for part in parts_of(table, name))])


def parts_of(table: Table, name: str) -> list[str]:
    """Return a table at laptop scale with its title and notes, or the command that prints it if it is long."""
    if len(table.rows) > MOST_ROWS:
        return [f"{table.title}: `icecore claims {name} --scale laptop --results results/laptop`."]
    return [f"**{table.title}**", table.markdown(), *map(as_sentence, table.notes)]


def as_sentence(note: str) -> str:
    return f"{note[0].upper()}{note[1:]}."


def table_of(name: str, form: str, results: Path) -> str:
    """Return the table that a comment names: `all` is the summary, `bench/FILE.json` a benchmark.

    The form is empty, `by preset`, `at laptop scale`, or `alone`, which leaves out the reasons for differences.
    """
    if form == "by preset":
        return preset_grid_of(name, "paper", Records(results)).markdown()
    if form == "alone":
        return grid_of(claims_of([name], "paper", "released", Records(results))).markdown()
    if name == "all":
        names = [name for name, experiment in EXPERIMENTS.items() if experiment.cells is not None]
        return summary_of(names, "paper", "released", Records(results)).markdown()
    if name == "predictions":
        table = outcomes(Records(results))
        return "\n\n".join([table.markdown(), *map(as_sentence, table.notes)])
    if name == "appendix-f":
        from icecore.constructions import all_constructed

        return widths_table(all_constructed(), sufficient_widths(Records(results))).markdown()
    if name == "directions":
        return directions_table(results / "analyses").markdown()
    if name.startswith("bench/"):
        return bench_table(read_json(results / name)["rows"]).markdown()
    if name not in EXPERIMENTS:
        names = [*EXPERIMENTS, "all", "predictions", "directions", "appendix-f"]
        raise unknown_name("table or figure", name, names)
    return laptop_tables(name, results) if form == "at laptop scale" else results_table(name, results)


def filled(text: str, results: Path) -> str:
    """Return the text with its tables filled in."""
    before, *rest = re.split(f"({BEGIN.pattern})", text)
    parts = [before]
    for mark, name, form, following in zip(rest[::4], rest[1::4], rest[2::4], rest[3::4], strict=True):
        _, end, after = following.partition(END)
        if not end:
            raise InputError(f"'{mark}' needs '{END}' after it")
        table = table_of(name, (form or "").strip(), results)
        parts.append(f"{mark}\n\n{table}\n\n{END}{after}")
    return "".join(parts)


def main() -> None:
    for path in map(Path, sys.argv[1:]):
        try:
            with remembered_settings():
                made = filled(path.read_text(encoding="utf-8"), Path("results"))
        except InputError as error:
            print(f"error: {path}: {error}", file=sys.stderr)
            sys.exit(2)
        path.write_text(made, encoding="utf-8")


if __name__ == "__main__":
    main()
