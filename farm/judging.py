"""Ask an agent for a judgement: a session of its own, without tools, in an empty workspace."""
