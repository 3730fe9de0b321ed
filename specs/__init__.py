"""The specification, what is submitted of it, and its tests."""
