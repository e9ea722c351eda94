"""The order of ready messages: first in first out, by priority, with a count of bytes."""
