"""Activation: devices that are ready are restarted into their image, in waves, each step in the journal before it."""
