"""Definitions files."""
