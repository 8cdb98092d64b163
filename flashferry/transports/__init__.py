"""How a device is told to fetch: the URL, the credentials, the questions of its copy command, and what is revoked.

A transport knows one protocol from the side of the device; the server for it is elsewhere. Rooms above ask for a
transport by its name and never spell a protocol themselves.
"""
