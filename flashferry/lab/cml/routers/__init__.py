"""Nodes that are stand-in routers on emulated links, and a controller of such nodes as a process of its own.

- `flashferry.lab.cml.routers.node`: one router's first configuration, its way to the outside, and its life.
- `flashferry.lab.cml.routers.runtime`: all of them, behind the controller's Protocol.
- `flashferry.lab.cml.routers.host_process`: the controller and its routers in a core namespace of their own.
"""
