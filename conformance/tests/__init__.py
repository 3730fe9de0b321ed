"""Tests of the conformance tooling: the corpus, its generator, the runner and the adapters."""
