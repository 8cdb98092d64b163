"""A table of devices as an Excel workbook, with the sites in groups.yaml beside it."""
