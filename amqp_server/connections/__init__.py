"""One client: how it gets in, its socket, session and outbox, what it may use, and how it ends."""
