"""Who may do what: the patterns that names are compared with."""
