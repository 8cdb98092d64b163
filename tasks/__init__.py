"""Nornir tasks, one file per step, usable in your own scripts.

A step reads from a device or acts on it through its session, and returns a value. Steps keep no journal and know no
run: that is `flashferry.run`. Each raises DeviceUnreachable if its session is lost, and OutputNotUnderstood if no
prompt comes in time or an output is not known.
"""
