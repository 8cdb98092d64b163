"""Reading and checking of inventories, and a typed view of each host.

Any Nornir inventory can be used, a folder or a plugin's. It is checked before any device is contacted, with errors that
name file, host and key. Sites, maintenance windows, image rules and the selection of devices are also here.
"""
