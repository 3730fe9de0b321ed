"""Writes the corpus of the conformance suite: ``python -m conformance.generator [--check]``.

Expected values are computed from a case's inputs, never by running a reader. Where a library
would have a choice (compressed frames), every byte is written by hand, so that the corpus is
the same on every machine.
"""
