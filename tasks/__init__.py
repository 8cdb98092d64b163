"""Nornir tasks, one file per step, usable in scripts of one's own.

A step looks or acts on one device by its session, and returns what it found as a value. Steps keep no journal and know
no run: that is `flashferry.run`.
"""
