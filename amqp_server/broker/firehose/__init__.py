"""The firehose: copies of what clients publish and get, for whoever looks for a fault."""
