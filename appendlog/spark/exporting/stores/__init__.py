"""Stores of outputs: a directory or an object store, with the same few operations."""
