"""Writes the corpus of the conformance suite: ``python -m conformance.generator [--check]``.

The expected values are computed from what a case puts in, never by running a reader, and
every byte is written by hand where a library could choose (compressed frames), so that the
corpus is the same on every machine.
"""
