"""From an export back to messages: what is in an output, in the order of its offsets."""
