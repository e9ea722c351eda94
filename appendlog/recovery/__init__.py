"""What a start does with a log directory: what is torn, what is damaged, and what it tells."""
