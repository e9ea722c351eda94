"""Writes the files of an export, in each format, and reports about them."""
