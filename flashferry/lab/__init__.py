"""Stand-in devices, the WAN link and worlds made of both; imports nothing of the project it judges."""
