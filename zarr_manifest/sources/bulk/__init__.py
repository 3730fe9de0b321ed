"""Many ranges of many objects at once, as a whole selection needs them.

Ranges come in columns, and go where the receiver wants them: straight to their destination where
nothing has to be decoded, or to be decoded in the thread that read them.
"""

from zarr_manifest.sources.bulk.ranges import ManyRanges, RangeError, Receiver, SourceObject
from zarr_manifest.sources.bulk.reading import MOST_BYTES_IN_FLIGHT, read_ranges
from zarr_manifest.sources.bulk.threads import in_decoding_thread

__all__ = [
    "MOST_BYTES_IN_FLIGHT",
    "ManyRanges",
    "RangeError",
    "Receiver",
    "SourceObject",
    "in_decoding_thread",
    "read_ranges",
]
