"""Steps of an activation: what a device does for its network, what it boots next, the restart into another image."""
