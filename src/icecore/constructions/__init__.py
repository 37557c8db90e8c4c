"""The paper's four constructions of appendix F, as explicit weights of our `Transformer`.

made = ice.constructions.construct("needle")
made.model.logits(made.parameters, tokens)  # parameters are in float64
"""

from icecore.constructions.checks import Check, checks_of
from icecore.constructions.made import Constructed, all_constructed, construct, load_construction
from icecore.constructions.registry import CONSTRUCTIONS, Construction, construction_of

__all__ = [
    "CONSTRUCTIONS",
    "Check",
    "Constructed",
    "Construction",
    "all_constructed",
    "checks_of",
    "construct",
    "construction_of",
    "load_construction",
]
