"""Tests of the specification: its text, its examples and its schemas, against the package."""
