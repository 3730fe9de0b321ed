"""Adapters: programs that answer the suite's requests with an implementation."""
