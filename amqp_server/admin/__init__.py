"""What operators see and change: rows of objects, imports, the census, the end of the log."""
