"""Moving messages from one queue into others: dead letters, delayed messages, replays."""
