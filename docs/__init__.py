"""What makes the pages of the documentation that are made from the code."""
