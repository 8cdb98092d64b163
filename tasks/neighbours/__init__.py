"""Devices of a site that serve each other: one is made to serve a proven file, another fetches it from there."""
