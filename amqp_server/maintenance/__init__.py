"""Tools that work on the files of a data directory, with or without a running server."""
