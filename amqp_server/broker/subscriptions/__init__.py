"""Readers that take nothing from a queue: consumers of streams, and consumers that browse."""
