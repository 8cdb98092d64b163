"""How a depot's catalogue is filled from a source: by our own server's HTTP or HTTPS, or by rsync over SSH.

A manifest comes first, chunks are hashed while they arrive, and the whole is hashed before it gets its name. A line
that breaks is waited for; a source that sends something else than its manifest says is blamed in a sentence.
"""
