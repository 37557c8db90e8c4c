"""Analyses of trained models: pure functions of weights and a batch that return numbers. Each has its control."""

from icecore.analysis.attention import attention_maps, induction_scores
from icecore.analysis.capacity import capacity
from icecore.analysis.circles import circles, distance_irrelevance, gradient_symmetricity
from icecore.analysis.errors import accuracy_by_position, errors_by_length, wrong_items
from icecore.analysis.moments import explained, moments_of
from icecore.analysis.readout import logistic_readout, ridge_readout
from icecore.analysis.subspaces import accuracy_curve, basis_of, predict_with

__all__ = [
    "accuracy_by_position",
    "accuracy_curve",
    "attention_maps",
    "basis_of",
    "capacity",
    "circles",
    "distance_irrelevance",
    "errors_by_length",
    "explained",
    "gradient_symmetricity",
    "induction_scores",
    "logistic_readout",
    "moments_of",
    "predict_with",
    "ridge_readout",
    "wrong_items",
]
