"""Nornir tasks, one file per step, usable in scripts of one's own.

A step reads from one device or acts on it through its session, and returns what it found as a value. Steps keep no
journal and know of no run: that is `flashferry.run`. Each raises DeviceUnreachable where its session is lost, and
OutputNotUnderstood where no prompt comes in time or an output is not known.
"""
