"""Help texts: paragraphs that wrap, examples that keep their lines, and short types."""

import inspect
import re
from typing import Any

from typer.core import TyperCommand, TyperGroup


def reflowed(docstring: str) -> str:
    """Join the lines of each paragraph, so that a terminal of any width wraps them; examples keep their lines."""
    paragraphs = inspect.cleandoc(docstring).split("\n\n")
    return "\n\n".join(text if text.startswith("icecore ") else " ".join(text.split("\n")) for text in paragraphs)


def shorten_types(parameters: list[Any], context: Any) -> None:
    """Show no type for a flag, and `<int>` for `<int range>` and `<list[int]>`."""
    for parameter in parameters:
        if hasattr(parameter, "display_type"):  # since typer 0.26; older ones print short types
            shown = "" if getattr(parameter, "is_flag", False) else parameter.display_type(context)
            short = re.sub(r"list\[(.*)\]", lambda match: match[1].lower(), shown).replace(" range", "")
            parameter.display_type = lambda _, short=short: short


class PlainCommand(TyperCommand):
    """Command with short types in its help."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        shorten_types(self.get_params(ctx), ctx)
        super().format_help(ctx, formatter)


class PlainGroup(TyperGroup):
    """Group of commands with short types in its help."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        shorten_types(self.get_params(ctx), ctx)
        super().format_help(ctx, formatter)
