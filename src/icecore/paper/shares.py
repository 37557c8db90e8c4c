"""Claims about shares of variance, for Tables 4, 5 and 7, and the choices the paper leaves open."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from icecore.paper.cells import Variation
from icecore.paper.differences import Matches, confirmed_for, explains, share_reasons
from icecore.paper.evidence import Evidence
from icecore.paper.experiment import Experiment
from icecore.paper.numbers import Tolerance
from icecore.reporting.claim import Claim, Source, around, median_of, strictly_judged, verdict_of, without_verdict
from icecore.reporting.verdict import Null
from icecore.store.records import Record
from icecore.sweeps.names import CellName

# Fixed before the activations of any run of these widths were measured.
DIRECTIONS = Tolerance(
    10.0, "the paper does not say which positions and inputs are pooled, and restarts differ by points"
)
NEURONS = Tolerance(3.0, "a few of many hundred neurons: small shares, which vary with what is pooled")
DEFAULT_POSITIONS = "read"
POSITIONS = ("all", "read", "scored", "last")  # as in `analysis.moments`, which imports torch


@dataclass(frozen=True)
class Share:
    """One share of variance in %: of a cell, at one activation, within the top 10 directions or neurons."""

    cell: CellName
    kind: str  # directions or neurons
    layer: int  # 0: the embedding
    layers: int
    paper: float

    @property
    def column(self) -> str:
        short = f"L{self.layer}" if self.layer else "Emb"
        return f"{'PC' if self.kind == 'directions' else 'neuron'} {short}"

    @property
    def stream(self) -> str:
        """Return the residual stream of the layer; of the last layer, before the final norm."""
        return f"block{self.layer - 1}.stream" if self.layer else "embedding"

    @property
    def place(self) -> str:
        """Return the activation that we measure; of the last layer, after the final norm.

        The paper does not say. The tolerances were fixed before any run, this choice after the first runs. Of eight
        readings it is the closest to Table 4, and for needle, Normal 1024, the only close one (39 against 48 %; before
        the norm 94). Hugging Face's `output_hidden_states` gives the same.
        """
        return "final" if self.layer == self.layers else self.stream

    @property
    def tolerance(self) -> Tolerance:
        return DIRECTIONS if self.kind == "directions" else NEURONS


def shares(rows: Mapping[CellName, Sequence[float]]) -> list[Share]:
    """Read rows as the paper prints them: directions at the embedding and each layer, then neurons."""
    places = len(next(iter(rows.values()))) // 2
    columns = [(kind, layer) for kind in ("directions", "neurons") for layer in range(places)]
    return [
        Share(cell, kind, layer, places - 1, value)
        for cell, values in rows.items()
        for (kind, layer), value in zip(columns, values, strict=True)
    ]


def share_claims(
    experiment: Experiment,
    evidence: Evidence,
    printed: Sequence[Share],
    elsewhere: Callable[[], Matches] = tuple,
) -> list[Claim]:
    """Return a claim per share; the explanation of a difference gives the share under each variation.

    A change that also gives the paper's number in a cell `elsewhere`, in another table, counts as confirmed.
    """
    cells = {cell.name: cell for cell in experiment.of(evidence)}
    found: list[Claim] = []
    differing: dict[int, dict[Variation, list[float]]] = {}
    for share in printed:
        cell = cells[share.cell]
        claim = share_claim(experiment.name, share, evidence.inside(cell), is_comparable=evidence.scale == "paper")
        if claim.verdict == "differs":
            differing[len(found)] = {
                variation: shares_of(evidence.inside(variation.cell), share)
                for variation in experiment.changed(cell, evidence)
            }
        found.append(replace(claim, null=null_of(share, printed)))
    matches: list[tuple[CellName, Sequence[str]]] = [
        (printed[place].cell, [one.change for one, values in changed.items() if explains(values, printed[place])])
        for place, changed in differing.items()
    ]
    matches += elsewhere() if differing else ()
    for place, changed in differing.items():
        confirmed = confirmed_for(experiment.name, found[place].cell, printed[place].cell, matches)
        notes = share_reasons(printed[place], found[place].n, changed, confirmed)
        found[place] = replace(found[place], explanation="; ".join(notes))
    return strictly_judged(found)


def null_of(share: Share, printed: Sequence[Share]) -> Null:
    """Return the median of the column's other rows: a constant. It agrees if that, or half of the other rows, does.

    Half of the other rows: the paper's own rows, shuffled, would meet the claim as often as not.
    """
    others = [one.paper for one in printed if one.column == share.column and one.cell != share.cell]
    constant = statistics.median(others)
    agreeing = [abs(other - share.paper) <= share.tolerance.points for other in others]
    agrees = abs(constant - share.paper) <= share.tolerance.points or 2 * sum(agreeing) >= len(others)
    return Null("median of the other rows", constant, agrees)


def share_claim(name: str, share: Share, runs: Sequence[Record], is_comparable: bool, more: str = "") -> Claim:
    """Return a claim at the default choices: every position that is read, the last layer after the final norm."""
    source = source_of(runs, share)
    ours = median_of(source.values)
    tolerance, reason = f"{share.tolerance.points:g}", share.tolerance.reason + more
    verdict = verdict_of(ours, ours is not None and abs(ours - share.paper) <= share.tolerance.points)
    if not is_comparable:
        tolerance, reason, verdict = "", "shares of variance depend on the width", without_verdict(ours)
    place = (str(share.cell), share.column)
    allowed = around(share.paper, share.tolerance.points) if is_comparable else None
    number = (share.paper, ours, source.values, None)
    claim = Claim(name, ", ".join(place), *number, tolerance, reason, verdict, place=place, allowed=allowed)
    return replace(claim, sources=(source,) if source.values else ())


def source_of(runs: Sequence[Record], share: Share) -> Source:
    """Return the share in % of each seed that has it, at the default choices."""
    measured = [run for run in runs if shares_of([run], share)]
    return Source.of(share.cell, measured, lambda run: shares_of([run], share)[0])


def shares_of(
    runs: Sequence[Record], share: Share, positions: str = DEFAULT_POSITIONS, place: str | None = None
) -> list[float]:
    """Return the share in % of each seed that has it; by default at the share's own activation."""
    which = 0 if share.kind == "directions" else 1
    found = [run.get("variance", {}).get(positions, {}).get(place or share.place) for run in runs]
    return [100 * pair[which] for pair in found if pair is not None]


@dataclass(frozen=True)
class Reading:
    """A reading of what the paper leaves open, and the mean distance of medians from its numbers, in points."""

    positions: str
    last_layer: str  # before or after the final norm
    difference: float
    within: int  # how many are within the tolerance
    numbers: int


def choices_of(printed: Sequence[tuple[Experiment, Sequence[Share]]], evidence: Evidence) -> list[Reading]:
    """Compare every reading on the rows that were run; the closest to the paper comes first."""
    rows = [
        (share, evidence.inside(cell))
        for experiment, own in printed
        for cell in experiment.of(evidence)
        for share in own
        if share.cell == cell.name
    ]
    found: list[Reading] = []
    for positions in POSITIONS:
        for last_layer in ("before", "after"):
            differences: list[float] = []
            within = 0
            for share, runs in rows:
                place = share.place if last_layer == "after" else share.stream
                values = shares_of(runs, share, positions, place)
                if values:
                    differences.append(abs(statistics.median(values) - share.paper))
                    within += differences[-1] <= share.tolerance.points
            if differences:
                found.append(Reading(positions, last_layer, statistics.fmean(differences), within, len(differences)))
    return sorted(found, key=lambda choice: choice.difference)
