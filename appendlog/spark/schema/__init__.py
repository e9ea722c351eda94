"""The rows: which columns, of which types, under which names."""
