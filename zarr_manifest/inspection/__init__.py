"""What a hierarchy contains, and what is wrong with it.

A map is a picture of an array's chunk grid, in cells. Verifying finds the state of each chunk: it
is ok, damaged, or unknown. A finding is some chunks that are not ok, for one reason. A sample is
the chunks that are read of all.
"""

from zarr_manifest.inspection.blocks import parts_of
from zarr_manifest.inspection.chunk_maps import DIFFERENCES, STYLE, ChunkMap
from zarr_manifest.inspection.damage import Finding as Finding
from zarr_manifest.inspection.decoding import ChunkDecoding
from zarr_manifest.inspection.describing import array_members, contents, dimension_names
from zarr_manifest.inspection.documents import Problem as Problem
from zarr_manifest.inspection.documents import check_document
from zarr_manifest.inspection.html_tree import MOST_NODES, contents_html, map_html, tree_html
from zarr_manifest.inspection.identity import identity, loose_rows
from zarr_manifest.inspection.node_contents import Contents as Contents
from zarr_manifest.inspection.node_contents import NodeContents as NodeContents
from zarr_manifest.inspection.node_contents import element_words, place_words, tree_lines
from zarr_manifest.inspection.report import Report as Report
from zarr_manifest.inspection.report import finding_line
from zarr_manifest.inspection.validation import validate
from zarr_manifest.inspection.verify_state import RecordedRun as RecordedRun
from zarr_manifest.inspection.verifying import verify
