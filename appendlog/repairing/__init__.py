"""Repair of damaged segments: they are rewritten without the damage; the old files are kept."""
