"""Tests of the census: which objects have changed since a reader looked last."""
