"""The conformance suite of `chunk-manifest-json`: corpus, runner, adapters (see README.md)."""
