"""Rules for the source that no linter has; `make lint` runs them."""
