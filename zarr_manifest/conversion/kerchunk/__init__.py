"""kerchunk reference sets as nodes, and hierarchies as kerchunk reference sets.

``json_sets`` and ``parquet_sets`` read the two layouts, ``export_json`` and ``export_parquet``
write them; ``references`` says what a reference means, in either.
"""
