"""Loopback servers that the tests read from: plain HTTP with scripted faults, and S3."""
