"""The sample fleet: the lab's devices, as Nornir SimpleInventory files."""
