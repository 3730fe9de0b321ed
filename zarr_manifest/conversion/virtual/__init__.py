"""VirtualiZarr's objects as nodes, and hierarchies as VirtualiZarr's objects."""
