"""The sections of a definitions file: what each entry means, and how it is written."""
