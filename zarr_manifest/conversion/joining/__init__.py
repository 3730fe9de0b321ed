"""Many similar inputs as one: their arrays along dimensions, and those that are the same in all."""

from zarr_manifest.conversion.joining.aligned_arrays import (
    AlignedArray,
    UnreadableValues,
    align_one,
    digest_of,
)
from zarr_manifest.conversion.joining.comparing import (
    axis_of,
    is_coordinate,
    joined_values,
    require_one_length,
)
from zarr_manifest.conversion.joining.inputs import (
    Input,
    KnownInputs,
    is_held,
    stored_variable,
    values_of,
    variable_of,
)
from zarr_manifest.conversion.joining.joining import Joined, JoinedArray, join_inputs
from zarr_manifest.conversion.joining.placed_references import are_same, in_pieces, placed
from zarr_manifest.conversion.joining.places import JoinRules
from zarr_manifest.conversion.joining.placing import Joint, Placement, chunk_shape, chunks_of, fit
