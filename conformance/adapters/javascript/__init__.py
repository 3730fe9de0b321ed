"""The reader in JavaScript: a package for npm, its adapter for the suite, example pages."""
