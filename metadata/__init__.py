"""Definitions on disk: one JSON document per entity, and the data directory's lock.

Imports nothing: Spark's workers read definitions, and have no aiofiles for `metadata.store`.
"""
