"""Figures show what their labels say: each number on its line, above its width, beside its own baseline."""

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from looking import bars_of, drawn, line_of
from made_up import bits, cells_at, record_of, remember_table3

from icecore.analysis.circles import components, strongest_frequency
from icecore.cli.demo import columns_of
from icecore.drawing import LADDER
from icecore.errors import InputError
from icecore.models import Transformer
from icecore.paper import evidence_of
from icecore.paper.fig4 import Trained, draw_languages
from icecore.paper.fig6 import Imitated, draw_imitations
from icecore.paper.fig7 import all_widths
from icecore.paper.fig8 import MemorizationCurve, curves_of, draw_curves
from icecore.paper.table3 import MEASURES, PRINTED, Bits, bits_of, draw_bits
from icecore.reporting.figures.demo import draw_demo
from icecore.reporting.figures.widths import Point, draw_widths
from icecore.reporting.inside import ANALYSES, AnalysisOptions
from icecore.store import Records
from icecore.sweeps.demo import Row


def test_a_figure_of_widths_has_medians_seeds_and_each_tasks_own_baseline():
    points = [
        Point("needle", "Random", 16, (1.0, 2.0, 9.0), 20.0, (16, 32)),
        Point("needle", "Random", 32, (50.0,), 20.0, (16, 32)),
        Point("parentheses", "Random", 16, (70.0,), 97.0, (16, 32)),
    ]
    panels: Any = draw_widths(points, "a title").axes
    first, second = panels
    assert line_of(first, "Random") == [(16, 2.0), (32, 50.0)]
    (ladder,) = [line for line in first.lines if line.get_gid() == LADDER]
    assert (list(ladder.get_xdata()), list(ladder.get_ydata())) == ([16] * 3, [1.0, 2.0, 9.0])
    (there, missing) = line_of(second, "Random")
    assert there == (16, 70.0)
    assert math.isnan(missing[1]), "of a width that is not recorded there is no point"
    assert {y for panel in (first,) for _, y in line_of(panel, "baseline")} == {20.0}
    assert {y for _, y in line_of(second, "baseline")} == {97.0}
    assert [panel.get_title(loc="left") for panel in (first, second)] == ["needle", "parentheses"]


def test_points_of_a_figure_are_percentages_beside_the_best_rule(tmp_path):
    cell = cells_at("fig7")[0]
    baselines = {"baselines": {"a rule": 0.2, "a better one": 0.3}}
    Records(tmp_path).append(record_of(cell, seed, value) | baselines for seed, value in enumerate((0.5, 0.25)))
    (point,) = all_widths(evidence_of(Records(tmp_path)))
    assert (point.line, point.width, point.values, point.baseline) == ("Random", 16, (50.0, 25.0), 30.0)
    assert point.seeds == (0, 1)


def test_figure_6_is_kl_against_the_targets_width():
    points = [
        Imitated("Random", "256x3", 4, (0.1, 0.2, 0.6), {"uniform": 1.7, "mean_output": 1.2}),
        Imitated("Random", "256x3", 8, (0.9,), {"uniform": 2.0, "mean_output": 1.5}),
        Imitated("Normal", "256x3", 4, (0.05,), {}),
    ]
    linear, logarithmic = draw_imitations(points, "a title").axes
    for panel in (linear, logarithmic):
        assert line_of(panel, "Random 256x3") == [(4, 0.2), (8, 0.9)]
        assert line_of(panel, "Normal 256x3") == [(4, 0.05)]
        assert line_of(panel, "baseline: uniform") == [(4, 1.7), (8, 2.0)]
        assert line_of(panel, "baseline: mean output") == [(4, 1.2), (8, 1.5)]
    assert (linear.get_yscale(), logarithmic.get_yscale()) == ("linear", "log")


def test_bits_are_drawn_above_what_they_are_shared_among(tmp_path):
    remember_table3(tmp_path, 0.8, 0.05)
    found = bits_of(evidence_of(Records(tmp_path)))
    for kind, end, trained in (("Normal", 0.8, 659_584), ("Random", 0.05, 262_784)):
        own = {one.measure: one for one in found if one.kind == kind}
        assert {name: one.values for name, one in own.items()} == {
            name: (value,) * 5 for name, value in bits(end, trained, 659_584).items() if name in MEASURES
        }
        papers = {name: one.paper for name, one in own.items() if one.paper is not None}
        assert papers == {"accuracy_bits_per_trained": PRINTED[kind][3]}
    some = [
        Bits("Random", "loss_bits_per_trained", (1.0, 2.0, 6.0), None),
        Bits("Normal", "accuracy_bits_per_trained", (3.0,), 3.5),
    ]
    panels: Any = draw_bits(some, "a title").axes
    (panel,) = panels
    assert bars_of(panel) == {"Random": [(0.8, 2.0)], "Normal": [(0.2, 3.0)]}
    assert [label.get_text() for label in panel.get_xticklabels()] == list(MEASURES.values())
    (line,) = panel.collections
    assert {y for segment in line.get_segments() for _, y in segment} == {3.5}


def test_figure_8_is_the_median_accuracy_by_step(tmp_path):
    remember_table3(tmp_path, 0.8, 0.05)
    curves = {curve.kind: curve for curve in curves_of(evidence_of(Records(tmp_path)))}
    assert curves["Normal"].steps == (100, 200, 300, 1000)
    assert curves["Normal"].values == ((0.0, 40.0, 80.0, 80.0),) * 5
    curve = MemorizationCurve("Random", "paper", (10, 20), ((1.0, 4.0), (2.0, 5.0), (9.0, 6.0)))
    (panel,) = draw_curves([curve], "a title").axes
    assert line_of(panel, "Random, preset paper") == [(10, 2.0), (20, 5.0)]


def inside(name: str, result: dict[str, Any], both: dict[str, Any] | None = None) -> Any:
    """The figure of an analysis, of a run of which only so much is there."""
    config = SimpleNamespace(task=SimpleNamespace(name="needle", vocab_size=11))
    run = SimpleNamespace(config=config, both=both, model=Transformer(width=8))
    context: Any = SimpleNamespace(run=run, options=AnalysisOptions(components=(0, 2)))
    return ANALYSES[name].figure(context, result)


def test_the_figure_of_variance_has_trained_beside_untrained():
    result = {
        "positions": "read",
        "trained": {"embedding": {"directions": 0.1, "neurons": 0.2}, "final": {"directions": 0.3, "neurons": 0.4}},
        "untrained": {"embedding": {"directions": 0.5, "neurons": 0.6}, "final": {"directions": 0.7, "neurons": 0.8}},
    }
    directions, neurons = (bars_of(panel) for panel in inside("variance", result).axes)
    assert directions == {"trained": [(-0.2, 10), (0.8, 30)], "untrained": [(0.2, 50), (1.2, 70)]}
    assert neurons == {"trained": [(-0.2, 20), (0.8, 40)], "untrained": [(0.2, 60), (1.2, 80)]}


def test_the_figure_of_readouts_has_both_accuracies_and_the_best_baseline():
    one = {"kind": "ridge", "train_accuracy": 0.5, "test_accuracy": 0.25}
    (panel,) = inside("readout", {"readouts": [one], "baselines": {"a rule": 0.1, "another": 0.2}}).axes
    assert bars_of(panel) == {"train": [(-0.2, 50)], "test": [(0.2, 25)]}
    assert {y for _, y in line_of(panel, "baseline")} == {20}


def test_the_figure_of_directions_has_what_is_kept_and_what_is_removed():
    curves = [
        {"mode": mode, "basis": "directions", "counts": [1, 2], "accuracy": values, "places": ["final"]}
        for mode, values in (("keep", [0.1, 0.9]), ("remove", [0.8, 0.2]))
    ]
    keep, remove = inside("causal", {"curves": curves}).axes
    assert (keep.get_xlabel(), line_of(keep, "top directions")) == ("directions kept, k", [(1, 10), (2, 90)])
    assert (remove.get_xlabel(), line_of(remove, "top directions")) == ("directions removed, k", [(1, 80), (2, 20)])


def test_rows_of_an_attention_map_look_at_its_columns():
    maps = [[[[1.0, 0.0], [0.3, 0.7]], [[1.0, 0.0], [0.6, 0.4]]]]  # a layer of two heads
    before = [[[[1.0, 0.0], [0.5, 0.5]], [[1.0, 0.0], [0.4, 0.6]]]]
    prompt = {"text": "a 1", "words": ["a", "1"], "maps": maps, "untrained_maps": before}
    figure = inside("attention", {"prompt": prompt})
    assert (figure.get_supylabel(), figure.get_supxlabel()) == ("from", "to")
    assert figure.get_suptitle() == "needle: attention on 'a 1'"
    titles = [f"{which}, layer 1, head {head}" for which in ("trained", "untrained") for head in (1, 2)]
    for panel, head, title in zip(figure.axes, maps[0] + before[0], titles, strict=False):
        assert panel.get_title() == title
        assert panel.images[0].get_array().tolist() == head


def test_circles_are_the_trained_embeddings_coloured_by_their_frequency():
    trained, untrained = torch.randn(2, 11, 8, generator=torch.Generator().manual_seed(0))
    figure = inside("modular", {}, {"trained": {"token": trained}, "untrained": {"token": untrained}})
    for panel, token, label in zip(figure.axes, (trained, untrained), ("t", "u"), strict=False):
        places = components(token)
        turns = strongest_frequency(places[:, 0])
        (dots,) = panel.collections
        assert torch.allclose(torch.tensor(dots.get_offsets().data), places[:, [0, 2]].double())
        assert dots.get_array().tolist() == [number * turns % 11 for number in range(11)]
        assert panel.get_title().startswith(label)
        assert (panel.get_xlabel(), panel.get_ylabel()) == ("component 1", "component 3")


def test_components_that_a_narrow_embedding_does_not_have_are_refused():
    narrow = torch.randn(11, 2, generator=torch.Generator().manual_seed(0))
    with pytest.raises(InputError, match="there are only 2 components"):
        inside("modular", {}, {"trained": {"token": narrow}, "untrained": {"token": narrow}})


def test_figure_4_has_a_line_for_each_depth():
    baselines = {"unigram": 5.0, "bigram": 4.0}
    points = [
        Trained(kind, width, layers, (loss, loss + 0.1, loss + 0.5), baselines, 3000, 20)
        for kind, layers, losses in (("Random", 2, (3.0, 2.5)), ("Random", 4, (2.9, 2.4)), ("Normal", 2, (2.0, 1.5)))
        for width, loss in zip((32, 64), losses, strict=True)
    ]
    (panel,) = draw_languages(points, "a title").axes
    lines = {line.get_label(): line for line in panel.lines}
    assert line_of(panel, "Random, 2 layers") == [(32, 3.1), (64, 2.6)]
    assert line_of(panel, "Random, 4 layers") == [(32, 3.0), (64, 2.5)]
    assert line_of(panel, "Normal, 2 layers") == [(32, 2.1), (64, 1.6)]
    random, deeper, normal = (lines[label] for label in ("Random, 2 layers", "Random, 4 layers", "Normal, 2 layers"))
    assert random.get_linestyle() == deeper.get_linestyle() != normal.get_linestyle(), "the line shows what trains"
    assert random.get_color() == normal.get_color() != deeper.get_color(), "the hue shows the body"
    assert {y for _, y in line_of(panel, "baseline: bigram")} == {4.0}


def test_the_demos_picture_and_table_have_each_number_in_its_place(tmp_path, monkeypatch):
    row = Row("needle", 0.1, 0.2, [0.3, 0.4], [0.5, 0.6])
    (panel,) = drawn(monkeypatch, draw_demo, [row], tmp_path / "a.png").axes
    assert {line.get_label(): [round(y) for y in line.get_ydata()] for line in panel.lines} == {
        "baseline (no learning)": [10],
        "only the unembedding trained": [20],
        "random body, embeddings trained": [30, 40],
        "everything trained": [50, 60],
    }
    assert columns_of(row) == ([0.1], [0.2], [0.3, 0.4], [0.5, 0.6]), "below baseline, U only, Random and Normal"
