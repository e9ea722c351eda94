"""Tools for a data directory that work on its files, beside a running server or without one."""
