"""Worked examples of inventories through other Nornir plugins; docs/inventory.md explains them."""
