"""Nornir tasks, one file per step, and the dialogue they hold with a device."""
