"""The fleet as data, and the typed view on it."""
