"""Which ready message goes next: plain, by priority, measured."""
