"""The change feed, which the management server polls: rows of the objects that have changed."""
