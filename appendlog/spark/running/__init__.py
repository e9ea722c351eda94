"""Spark itself: starting it, and giving it what its workers need."""
