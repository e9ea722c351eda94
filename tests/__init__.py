"""Tests, one folder per room; see docs/testing.md for the kinds of fault and how each is made."""
