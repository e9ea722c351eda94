"""Mending what a start only goes past: damaged segments are written again, the old ones kept."""
