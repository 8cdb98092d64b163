"""Databases of distributed runs: the centre's parts and messages, and an agent's orders and unsent messages."""
