"""Delivery to consumers: their order, their credit, and what they have not acknowledged."""
