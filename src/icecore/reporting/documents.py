"""Results in README and docs, made from the records: `python -m icecore.reporting.documents FILE...`.

A table stands between two comments, of which the first names it; a number before a comment that says what it is
(`quotes`). What else is in the file stays as it is.
"""

import re
import sys
from pathlib import Path

from icecore.errors import InputError, unknown_name
from icecore.reporting.claim import seeds_of
from icecore.reporting.claims import claims_of
from icecore.reporting.grids import grid_of, preset_grid_of
from icecore.reporting.markdown import markdown_table
from icecore.reporting.quotes import Quotes
from icecore.reporting.reasons import unexplained
from icecore.reporting.stored_tables import bench_grid_of, read_results, subspace_grid
from icecore.reporting.summary import HEADINGS, summary_of
from icecore.store import Records
from icecore.sweeps.entries import ENTRIES

BEGIN = re.compile(r"<!-- results of ([\w./-]+)( by preset)?, made by `make readme` -->")
END = "<!-- end of results -->"


def results_table(name: str, results: Path) -> str:
    """A table or figure, how many seeds it has, and why some numbers differ from the paper's."""
    claims = claims_of([name], "paper", "released", Records(results))
    headings, rows = grid_of(claims)
    seeds = seeds_of(claims)
    text = {"": "Nothing is measured so far. ", "1": "One seed each. "}.get(seeds, f"Medians of {seeds} seeds. ")
    missing = sum(claim.n == 0 for claim in claims)
    if seeds and missing:
        text += f"{len(claims) - missing} of the {len(claims)} cells are measured so far, the others have a dash. "
    differences = [
        f"- {claim.cell}: {claim.remarks or unexplained(claim.n)}." for claim in claims if claim.verdict == "differs"
    ]
    if differences:
        verb = "differs" if len(differences) == 1 else "differ"
        text += f"{len(differences)} {verb} from the paper by more than the tolerance that was fixed beforehand:\n"
    return "\n".join([markdown_table(headings, rows), "", text.rstrip(" "), *differences])


def table_of(name: str, by_preset: bool, results: Path) -> str:
    """`all` is the summary, `subspaces` what few directions do, `bench/FILE.json` a bench; else a table or figure."""
    if by_preset:
        return markdown_table(*preset_grid_of(name, "paper", Records(results)))
    if name == "all":
        names = [name for name, entry in ENTRIES.items() if entry.cells is not None]
        return markdown_table(HEADINGS, summary_of(names, "paper", "released", Records(results)))
    if name == "subspaces":
        return markdown_table(*subspace_grid(results / "analyses"))
    if name.startswith("bench/"):
        return markdown_table(*bench_grid_of(read_results(results / name)["rows"]))
    if name not in ENTRIES:
        raise unknown_name("table or figure", name, [*ENTRIES, "all", "subspaces"])
    return results_table(name, results)


def filled(text: str, results: Path) -> str:
    """The text with every table and number that its comments name."""
    before, *rest = re.split(f"({BEGIN.pattern})", Quotes(results).filled(text))
    parts = [before]
    for mark, name, by_preset, following in zip(rest[::4], rest[1::4], rest[2::4], rest[3::4], strict=True):
        _, end, after = following.partition(END)
        if not end:
            raise InputError(f"'{mark}' needs '{END}' after it")
        parts.append(f"{mark}\n\n{table_of(name, bool(by_preset), results)}\n\n{END}{after}")
    return "".join(parts)


def main() -> None:
    for path in map(Path, sys.argv[1:]):
        try:
            made = filled(path.read_text(encoding="utf-8"), Path("results"))
        except InputError as error:
            print(f"error: {path}: {error}", file=sys.stderr)
            sys.exit(2)
        path.write_text(made, encoding="utf-8")


if __name__ == "__main__":
    main()
