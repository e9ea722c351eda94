"""Files as the storage rooms see them: operations that tests can replace, and open files."""
