"""Definitions on the disk, one JSON document each, and the lock of the data directory.

Imports nothing: Spark's workers read definitions, and have no aiofiles for `metadata.store`.
"""
