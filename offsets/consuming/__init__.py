"""Logs and groups without a server: one directory, one writer, any number of readers."""
