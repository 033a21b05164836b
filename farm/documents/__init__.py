"""Turn text files into plain data that remembers where everything stood."""
