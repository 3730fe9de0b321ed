"""Zarr v2 metadata as valid v3 metadata, v2 hierarchies as nodes, and v3 metadata as v2.

``documents`` finds the nodes that a set of v2 documents describes, ``metadata`` converts one.
"""
