"""Runs an implementation against the conformance corpus; standard library only.

Imports nothing of any implementation, ours included: it must not share their mistakes.
"""
