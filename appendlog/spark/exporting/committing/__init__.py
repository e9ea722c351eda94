"""Commits files to an output, each once, with manifests; and cleans up after crashes."""
