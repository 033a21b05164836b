"""Real processes, the real command line."""
