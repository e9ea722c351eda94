"""File operations of the storage packages, which tests can replace, and open files."""
