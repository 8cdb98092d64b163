"""A table of devices as CSV, with the sites in groups.yaml beside it."""
