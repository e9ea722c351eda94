"""How fast the page shows and filters many queues, in Chromium."""
