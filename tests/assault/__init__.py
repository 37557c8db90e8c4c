"""An assault on the whole program: kills, fuzzed calls, faults and attacks, each trial in a forked process.

`make assault` runs them all at full size, by hand; `tests/test_assault.py` runs a small part of each.
"""
