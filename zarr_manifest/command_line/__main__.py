"""``python -m zarr_manifest.command_line``: the same as ``zarr-manifest``."""

from zarr_manifest.command_line import main

if __name__ == "__main__":
    main()
