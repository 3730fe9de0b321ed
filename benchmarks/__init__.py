"""One table of what references cost, beside other readers: `python -m benchmarks`.

`rows/` has the cases, one module for each group that shares data; `participants/` those who are
compared; `standing.py` the goals; `page.py` writes docs/performance.md.
"""
