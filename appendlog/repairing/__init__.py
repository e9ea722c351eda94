"""Mending what a start only goes past: damaged segments are written anew, the old ones kept."""
