"""The stand-in: a process of devices that any SSH client takes for IOS-XE."""
