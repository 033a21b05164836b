"""Turn results into what people and programs read."""
