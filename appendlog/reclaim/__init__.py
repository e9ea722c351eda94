"""Giving disk space back: segments that are removed, and segments that are rewritten smaller."""
