"""Figures shared by several experiments, and the demo's."""
