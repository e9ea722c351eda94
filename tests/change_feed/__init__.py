"""Tests of the change feed: which objects have changed since a reader polled last."""
