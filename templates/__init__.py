"""Device output to typed rows."""
