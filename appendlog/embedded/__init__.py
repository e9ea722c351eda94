"""One log as a library: a writer that batches and syncs by policy, a reader that follows it."""
