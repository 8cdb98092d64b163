"""Nodes that are stand-in routers on emulated links, and a controller of such nodes as a process of its own.

- `flashferry.lab.cml.routers.node`: what a first configuration makes of a router.
- `flashferry.lab.cml.routers.node`: the way from a router to the outside, and what its links do to packets.
- `flashferry.lab.cml.routers.node`: one router's life, from QUEUED to STOPPED.
- `flashferry.lab.cml.routers.runtime`: all of them, behind the controller's Protocol.
- `flashferry.lab.cml.routers.host_process`: the controller and its routers in a core namespace of their own.
"""
