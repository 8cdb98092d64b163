"""Figures that are held: each is measured anew by `make measured` and must stay inside its band of `bands.toml`.

The tests hold what the product does; how fast it does it depends on the machine, so it is measured here, five times,
and only while the machine is otherwise idle. docs/testing.md says how to add a figure.
"""
