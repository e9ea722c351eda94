"""Messages on their way from one queue into others: dead letters, delayed ones."""
