"""Who may log in, and what a user may do: users, password hashes, permissions."""
