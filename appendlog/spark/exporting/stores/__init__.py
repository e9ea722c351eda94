"""Where an output lives: a directory, or an object store, behind the same few operations."""
