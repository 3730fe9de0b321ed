"""Comparisons in one run, on one machine: `python -m benchmarks [--quick] [name ...]`.

One module per benchmark; each has a `run(quick)` that yields tables. `readers.py` lists
the participants; add a peer there.
"""
