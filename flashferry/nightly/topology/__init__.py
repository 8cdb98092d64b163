"""Make the topology of a night's lab from its description, or read a topology file of the user.

`made` is the entry; `definitions` has the known routers, their first configuration and the YAML that a controller
imports; `own` reads a file of the user.
"""
