"""The farm's nouns as frozen values. Imports nothing of the farm but its errors."""
