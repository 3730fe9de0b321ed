"""Comparisons in one run, on one machine: `python -m benchmarks [--quick] [name ...]`.

One module per benchmark; each has a `run(quick)` that yields tables. Who takes part
is said in `readers.py`, and a peer is added there.
"""
