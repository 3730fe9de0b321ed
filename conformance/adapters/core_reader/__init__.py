"""A reader of class `core` and nothing more, written from the text of the specification.

Local files only; no features, no limits that can be set, no validator. It needs numpy and the
standard library. What it shows is how much the core asks for; use ``zarr_manifest`` to read data.
"""
