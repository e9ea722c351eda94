"""May it be declared? Checks of names, arguments, equivalence and numbers of objects."""
