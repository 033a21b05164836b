"""Judge a session: one file a group of evaluators, one registry."""
