"""A user's measurement: a function from a model, its parameters and test items to numbers."""

import inspect

from icecore.errors import InputError, require
from icecore.models import device_of
from icecore.reporting.inside.context import Analysis, AnalysisContext, Result
from icecore.reporting.table import Table
from icecore.training.probes import finite_numbers
from icecore.user_code import hash_of, load_function, reraise_user_error

ABOUT = "A measurement of the user's own, a function in the file that its table names."
TAKES = "(model, parameters, batch)"


def own_analysis(spec: str) -> Analysis:
    """Return the analysis of `FILE.py:FUNCTION`, called with the trained and with the untrained parameters."""
    function, text = load_function(spec, "measurement")
    name = function.__name__
    try:
        inspect.signature(function).bind(None, None, None)
    except TypeError:
        raise InputError(f"{name} in {spec.partition(':')[0]} must take {TAKES}; others need defaults") from None

    def measure(context: AnalysisContext) -> Result:
        run = context.run
        batch = run.config.task.test_set()[: context.options.items]
        found: dict[str, dict[str, float]] = {}
        for done, (which, parameters) in enumerate(run.both.items(), start=1):
            own = {each: value.clone() for each, value in parameters.items()}  # a copy, which the function may change
            rows = batch.to(device_of(own))
            with reraise_user_error(f"{spec} failed"):
                found[which] = finite_numbers(function(run.model, own, rows), name)
            context.on_progress(name, done, 2)
        require(
            found["trained"].keys() == found["untrained"].keys(),
            f"{name} must return the same names for every model, got {', '.join(found['trained'])} (trained) and "
            f"{', '.join(found['untrained'])} (untrained)",
        )
        return {"file": spec, "hash": hash_of(text), "items": len(batch), **found}

    return Analysis(name, ABOUT, measure, tables)


def tables(result: Result) -> list[Table]:
    both = ("trained", "untrained")
    rows = [(name, *(f"{result[which][name]:,.4g}" for which in both)) for name in result["trained"]]
    return [Table(f"{result['file']}, on {result['items']:,} test items", ("", *both), rows, left=("",))]
