"""Run a session: one file a kind of agent, one registry."""
