"""Files of many formats as nodes, through VirtualiZarr's parsers.

``reading`` is the way in; each format has a module of its own.
"""
