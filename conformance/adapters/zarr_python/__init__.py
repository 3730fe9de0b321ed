"""Negative adapter: plain zarr-python, which does not know the transformer.

What it answers is recorded, not repaired: it shows what the cases catch.
"""
