"""The export: from a plan to files that are committed."""
