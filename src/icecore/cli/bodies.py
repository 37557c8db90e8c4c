"""Models from the command line: `--model`, and its settings as flags."""

from typing import TYPE_CHECKING, Any, get_type_hints

from icecore.errors import require

if TYPE_CHECKING:
    from icecore.models import Model
    from icecore.tasks import Task

LINEARIZED = "linearized"  # a transformer whose attention is a prefix sum


def find_body(name: str) -> "type[Model]":
    """Return the class that `--model` names."""
    from icecore.errors import unknown_name
    from icecore.models import MODELS, SHIPPED, HuggingFace, Transformer, find_model
    from icecore.models.check import require_class
    from icecore.models.hf import PREFIX
    from icecore.user_code import is_file

    if name == LINEARIZED:
        return Transformer
    if name == HuggingFace.name or (name not in MODELS and not is_file(name) and not name.startswith(PREFIX)):
        raise unknown_name("model", name, [*(each.name for each in SHIPPED), LINEARIZED, "FILE.py:CLASS", "hf:CONFIG"])
    model_class = find_model(name)
    require_class(model_class)
    return model_class


def make_body(
    task: "Task",
    preset: str,
    name: str,
    model_class: "type[Model]",
    given: dict[str, Any],
    like: "Model | None" = None,
    positions: int | None = None,
) -> "Model":
    """Make the model from the given settings; the others are the preset's for the task, or another model's."""
    from icecore.models import settings_of_model
    from icecore.models.check import require_made
    from icecore.models.hf import PREFIX
    from icecore.tasks.loading import parse_value
    from icecore.training.presets import preset_dims, preset_model
    from icecore.user_code import reraise_user_error

    with reraise_user_error(f"cannot read the types of {model_class.__name__}'s fields"):
        kinds = get_type_hints(model_class)
    fields = settings_of_model(model_class)
    values = preset_model(task, model_class, preset) if like is None else {key: getattr(like, key) for key in fields}
    if name == LINEARIZED:
        values["attention"] = "prefix-sum"
    for key, value in given.items():
        if value is not None:
            require(key in fields, f"the model {name} has no {key}; drop --{key.replace('_', '-')}")
            is_text = isinstance(value, str) and kinds[key] is not str
            values[key] = parse_value(key, value, kinds[key]) if is_text else value
    if name.startswith(PREFIX):
        values["config"] = name.removeprefix(PREFIX)
    return require_made(model_class, values, preset_dims(task, positions))


def kind_of(model: "Model") -> str:
    """Name the model as `--model` does."""
    from icecore.models import HuggingFace, Transformer

    if isinstance(model, HuggingFace):
        return f"hf:{model.architecture}"
    is_linearized = type(model) is Transformer and model.attention == "prefix-sum"
    return LINEARIZED if is_linearized else model.name
