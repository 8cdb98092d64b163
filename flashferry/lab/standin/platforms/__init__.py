"""Platforms as data: a TOML file of figures and texts, and a configuration with marks, per platform."""
