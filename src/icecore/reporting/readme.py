"""The README's table of results, made from the records: `python -m icecore.reporting.readme` writes it anew."""

import sys
from pathlib import Path

from icecore.errors import InputError
from icecore.reporting.claims import claims_of, grid_of
from icecore.reporting.markdown import markdown_table
from icecore.store import Records

BEGIN, END = "<!-- results of table1, made by `make readme` -->", "<!-- end of results -->"


def results_table(results: Path) -> str:
    claims = claims_of(["table1"], "paper", "released", Records(results))
    headings, rows = grid_of(claims)
    counts = [claim.n for claim in claims if claim.n]
    seeds = " to ".join(map(str, sorted({min(counts, default=0), max(counts, default=0)})))
    measured = f"{len(counts)} of the {len(claims)} cells are measured so far, the others have a dash. "
    text = f"Medians of {seeds} seeds. {measured if len(counts) < len(claims) else ''}"
    differences = [f"- {claim.cell}: {claim.remarks}." for claim in claims if claim.verdict == "differs"]
    if differences:
        text += f"{len(differences)} differ from the paper by more than the tolerance that was fixed beforehand:\n"
    return "\n".join([markdown_table(headings, rows), "", text.rstrip(" "), *differences])


def filled(text: str, results: Path) -> str:
    """The text with the table between the two marks."""
    before, mark, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not mark or not end:
        raise InputError(f"the README has no '{BEGIN}' with '{END}' after it")
    return f"{before}{BEGIN}\n\n{results_table(results)}\n\n{END}{after}"


def main() -> None:
    readme = Path(sys.argv[1] if len(sys.argv) > 1 else "README.md")
    readme.write_text(filled(readme.read_text(encoding="utf-8"), readme.parent / "results"), encoding="utf-8")


if __name__ == "__main__":
    main()
