"""The segments of one log: writing, sealing, indexing, finding and reading."""
