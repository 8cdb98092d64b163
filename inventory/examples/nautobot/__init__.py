"""Devices from Nautobot, with the sites in groups.yaml beside it or in config contexts."""
