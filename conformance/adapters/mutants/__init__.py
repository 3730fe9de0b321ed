"""Mutants: the Python adapter, broken in one way each, to see that the corpus notices.

``python -m conformance.adapters.mutants`` lists them, ``python -m conformance.adapters.mutants
NAME`` is one. Every area of the corpus has at least one that it must notice; most mutants name the
cases that must.
"""
