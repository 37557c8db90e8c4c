"""Trained parameters, chosen by role."""

from collections.abc import Mapping

from icecore.errors import InputError, unknown_name
from icecore.models.base import Model, ModelDims, ParameterSpec

ALIASES: Mapping[str, tuple[str, ...]] = {
    "embeddings": ("token", "position", "unembed"),  # the paper's "Random"
    "embed": ("token", "position"),
    "token+unembed": ("token", "unembed"),
}


def trained_names(model: Model, dims: ModelDims, trainable: str) -> list[str]:
    """Return the names of the trained parameters; `trainable` is an alias, `all`, or comma-separated roles."""
    specs = model.specs(dims)
    known = known_roles(model, specs)
    for name, spec in specs.items():
        role = spec.role.split("/")[0]
        if role not in model.roles:
            raise unknown_name(f"role of {model.name}'s parameter {name}", role, model.roles)
    wanted: set[str] = set()
    for word in trainable.split(","):
        word = word.strip()
        if word == "all":
            wanted |= set(model.roles)
        elif word in ALIASES:
            wanted |= set(ALIASES[word])  # roles that the model lacks, such as position, are ignored
        elif word in known:
            wanted.add(word)
        else:
            raise unknown_name(f"role of {model.name}", word, [*ALIASES, "all", *known])
    names = [name for name, spec in specs.items() if wanted & set(spec.role.split("/"))]
    if not names:
        raise InputError(f"nothing trains: {model.name} has no parameter with the role '{trainable}'")
    if all(specs[name].role in model.unread_roles for name in names):
        raise InputError(f"nothing would train: {model.name} with these settings does not read '{trainable}'")
    return names


def known_roles(model: Model, specs: Mapping[str, ParameterSpec]) -> list[str]:
    """Return the model's roles, then its sub-roles."""
    finer = dict.fromkeys(part for spec in specs.values() for part in spec.role.split("/")[1:])
    return [*model.roles, *finer]
