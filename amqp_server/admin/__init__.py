"""What operators see and change: rows of objects, imports, the change feed, the end of the log."""
