"""Real servers from Python wheels, in one data folder, that end with their owner."""
