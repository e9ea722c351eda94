"""The files of an export: what a task writes, in which format, and what it says of them."""
