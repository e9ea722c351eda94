"""Structures of docs/log-format.md: sizes, chunks, records, messages, headers and footers.

This package opens no files.
"""
