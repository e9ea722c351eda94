"""A log inside a program: a writer that batches and syncs, and a reader that follows it."""
