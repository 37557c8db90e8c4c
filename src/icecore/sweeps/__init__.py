"""Sweeps: sets of runs that answer one question."""
