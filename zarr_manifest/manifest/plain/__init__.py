"""Documents whose entries are all written like the first one, read without a step for each.

Writers format every entry alike, so that what stands between its values can be compared, and
its numbers be parsed, for thousands of entries at once. What is found is certain: the text of
a document is, byte for byte, what was compared and parsed. Anything else is left to others,
which also know what is wrong with it. Pure.
"""

from zarr_manifest.manifest.plain.entries import PlainReader

__all__ = ["PlainReader"]
