"""Benchmarks: speed as a ratio, measured in one run on one machine."""
