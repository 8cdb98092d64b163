"""Fill a depot's catalogue from a source: our own server by HTTP(S), or a host by rsync over SSH.

The manifest is fetched first; chunks are hashed on arrival, and the whole image before it gets its name. After a broken
connection the sync waits and continues; data that contradicts the manifest is reported as the source's fault.
"""
