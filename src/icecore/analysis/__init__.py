"""Analyses of trained models: pure functions of weights and a batch that return numbers. Each has its control."""

from icecore.analysis.attention import Head, Induction, attention_maps, induction_scores
from icecore.analysis.capacity import Capacity, capacity
from icecore.analysis.circles import Circles, circles, distance_irrelevance, gradient_symmetricity
from icecore.analysis.errors import (
    AccuracyByPosition,
    ErrorsByLength,
    accuracy_by_position,
    errors_by_length,
    wrong_items,
)
from icecore.analysis.moments import Explained, Moments, explained, moments_of
from icecore.analysis.readout import Readout, logistic_readout, ridge_readout
from icecore.analysis.subspaces import AccuracyCurve, accuracy_curve, basis_of, predict_with

__all__ = [
    "AccuracyByPosition",
    "AccuracyCurve",
    "Capacity",
    "Circles",
    "ErrorsByLength",
    "Explained",
    "Head",
    "Induction",
    "Moments",
    "Readout",
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
