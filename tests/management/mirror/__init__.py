"""Tests of the mirror: what the management server knows of the broker."""
