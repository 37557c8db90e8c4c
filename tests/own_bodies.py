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
