"""The world a session runs in: its workspace and its processes."""
