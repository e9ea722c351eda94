"""Where messages are: the store of a queue over its ring and its log."""
