"""Files of bodies of one's own, for tests to write, and to break."""

SHIFTED = """
from dataclasses import dataclass
from typing import ClassVar
from icecore.models import Transformer

@dataclass(frozen=True)
class Shifted(Transformer):
    by: float = 0.0
    name: ClassVar[str] = "shifted"

    def unembed(self, parameters, hidden):
        return super().unembed(parameters, hidden) + self.by
"""
LOOKING = """
from dataclasses import dataclass
from typing import ClassVar
import torch
from icecore.models import Model, ParameterSpec

@dataclass(frozen=True)
class Looking(Model):
    width: int = 16
    scale: float = SCALE
    name: ClassVar[str] = "looking"
    roles: ClassVar[tuple[str, ...]] = ("token", "unembed", "mix")

    def specs(self, dims):
        return {
            "token": ParameterSpec((dims.vocab_size, self.width), "token", 0.02),
            "gate": ParameterSpec((self.width,), "mix", self.scale),
            "unembed": ParameterSpec((dims.vocab_size, self.width), "unembed", 0.02),
        }

    def hidden(self, parameters, tokens):
        own = parameters["token"][tokens]
        later = torch.cat([own[:, FIRST:], torch.zeros_like(own[:, :FIRST])], dim=1)
        return own + later * parameters["gate"]

    def unembed(self, parameters, hidden):
        return hidden @ parameters["unembed"].T
"""
TWO_TABLES = """
from dataclasses import dataclass
from typing import ClassVar
import torch
from icecore.models import Model, ParameterSpec

@dataclass(frozen=True)
class TwoTables(Model):
    width: int = 16
    name: ClassVar[str] = "two-tables"
    roles: ClassVar[tuple[str, ...]] = ("token", "mixing", "unembed")
    activations: ClassVar[tuple[str, ...]] = ("sum", "mixed")
    streams: ClassVar[tuple[str, ...]] = ("sum", "mixed")

    def specs(self, dims):
        shape = (dims.vocab_size, self.width)
        return {
            "words": ParameterSpec(shape, "token", 0.1),
            "more_words": ParameterSpec(shape, "token", 0.1),
            "mixing": ParameterSpec((self.width, self.width), "mixing", self.width**-0.5),
            "answers": ParameterSpec(shape, "unembed", 0.02),
        }

    def hidden(self, parameters, tokens, hook=lambda _, value: value):
        inputs = parameters["words"][tokens] + parameters["more_words"][tokens] ** 2
        inputs = hook("sum", inputs)
        return hook("mixed", torch.tanh(inputs.cumsum(dim=1) @ parameters["mixing"].T))

    def unembed(self, parameters, hidden):
        return hidden @ parameters["answers"].T
"""
