"""The examples that look at stored weights say what the docs say of them."""

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_short_strings_are_balanced_where_the_question_mark_may_ask_for_it(capsys):
    example = runpy.run_path(str(ROOT / "examples" / "short_strings.py"))
    example["main"]([str(ROOT / "results" / "weights" / "parentheses" / "d4c9473a2cb0")])
    shown = capsys.readouterr().out
    for seed in range(3):
        assert f"seed {seed}, 6 characters, place 6: 0.0 and 1.0, 8: 1.0 and 1.0, 9: 0.0 and 1.0\n" in shown
        assert f"seed {seed}, 2 characters, place 2: 0.0 and 1.0, 8: 0.0 and 1.0, 9: 0.0 and 1.0\n" in shown
