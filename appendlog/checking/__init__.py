"""Check of a whole log, byte by byte, without changing it."""
