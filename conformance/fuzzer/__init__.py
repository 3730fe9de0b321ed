"""Asks two implementations the same random questions, and compares what they answer."""
