"""What may be done and how, for every door of the server."""
