"""TIFF files, including GeoTIFF and COG."""

from zarr_manifest.conversion.files.tiff.images import read_tiff
