"""Schemas of rows: names and types of columns."""
