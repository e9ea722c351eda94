"""Who reads a log without taking from it: consumers of streams, and who only looks."""
