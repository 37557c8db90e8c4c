"""Trained parameters, chosen by role."""

from collections.abc import Callable, Mapping
from typing import Literal, get_args

from icecore.errors import InputError, unknown_name
from icecore.models.base import Model, ModelDims, ParameterSpec

ALIASES: Mapping[str, tuple[str, ...]] = {
    "embeddings": ("token", "position", "unembed"),  # the paper's "Random"
    "embed": ("token", "position"),
    "token+unembed": ("token", "unembed"),
}


Half = Literal["all", "body", "embeddings"]  # what can be taken from another model
HALVES: tuple[Half, ...] = get_args(Half)


def names_of_half(model: Model, dims: ModelDims, half: Half) -> list[str]:
    """Return the names of the embeddings, of the body, which is the rest, or of all parameters."""
    wanted = {"all": (True, False), "embeddings": (True,), "body": (False,)}[half]
    return [name for name, spec in model.specs(dims).items() if is_embedding(spec) in wanted]


def is_embedding(spec: ParameterSpec) -> bool:
    return spec.role.split("/")[0] in ALIASES["embeddings"]


def is_of_norm(_name: str, spec: ParameterSpec) -> bool:
    """Tell whether the parameter is a gain or bias of a norm."""
    return "norm" in spec.role.split("/")


def is_bias(name: str, spec: ParameterSpec) -> bool:
    """Tell whether the parameter is a bias of the body, by name or sub-role; those of norms count too, as in BitFit.

    SOURCE: Ben Zaken et al. 2021 (arXiv 2106.10199).
    """
    is_named = name.endswith("bias") or "bias" in spec.role.split("/")
    return is_named and not is_embedding(spec)


# Parts that cross the roles, by the word for --trainable.
CROSSING_ROLES: Mapping[str, tuple[Callable[[str, ParameterSpec], bool], ...]] = {
    "norms": (is_of_norm,),
    "biases": (is_bias,),
    "norms+biases": (is_of_norm, is_bias),
}


def trained_names(model: Model, dims: ModelDims, trainable: str) -> list[str]:
    """Return the names of the trained parameters; `trainable` is an alias, a part, `all`, or comma-separated roles."""
    specs = model.specs(dims)
    require_roles(model, specs)
    known = known_roles(model, specs)
    chosen: set[str] = set()
    for word in (each.strip() for each in trainable.split(",")):
        if word in CROSSING_ROLES:
            found = {name for name, spec in specs.items() if any(rule(name, spec) for rule in CROSSING_ROLES[word])}
        elif word in ALIASES or word in known or word == "all":
            found = names_of_word(model, specs, word)
        else:
            raise unknown_name(f"role of {model.name}", word, [*ALIASES, *CROSSING_ROLES, "all", *known])
        if word in CROSSING_ROLES and not found:
            raise InputError(f"nothing trains: {model.name} has no {word.replace('+', ' or ')}; choose another part")
        chosen |= found
    names = [name for name in specs if name in chosen]
    if not names:
        raise InputError(f"nothing trains: {model.name} has no parameter with the role '{trainable}'")
    if all(specs[name].role in model.unread_roles for name in names):
        raise InputError(f"nothing would train: {model.name} with these settings does not read '{trainable}'")
    return names


def names_of_word(model: Model, specs: Mapping[str, ParameterSpec], word: str) -> set[str]:
    """Return the parameters of a role, of an alias, or of all roles.

    Roles that the model lacks, such as position, are ignored. Those in `fixed_roles` train only if named themselves.
    """
    wanted = set(model.roles) if word == "all" else set(ALIASES.get(word, (word,)))
    return {
        name
        for name, spec in specs.items()
        if wanted & set(spec.role.split("/"))
        and (spec.role not in model.fixed_roles or word in spec.role.split("/")[1:])
    }


def require_roles(model: Model, specs: Mapping[str, ParameterSpec]) -> None:
    """Raise if a parameter has a role that the model does not declare."""
    for name, spec in specs.items():
        role = spec.role.split("/")[0]
        if role not in model.roles:
            raise unknown_name(f"role of {model.name}'s parameter {name}", role, model.roles)


def known_roles(model: Model, specs: Mapping[str, ParameterSpec]) -> list[str]:
    """Return the model's roles, then its sub-roles."""
    finer = dict.fromkeys(part for spec in specs.values() for part in spec.role.split("/")[1:])
    return [*model.roles, *finer]


def trained_counts(model: Model, dims: ModelDims, trainable: str) -> dict[str, int]:
    """Return the number of trained parameters per role, sub-roles apart."""
    specs = model.specs(dims)
    counts: dict[str, int] = {}
    for name in trained_names(model, dims, trainable):
        role = specs[name].role
        counts[role] = counts.get(role, 0) + specs[name].size
    return counts
