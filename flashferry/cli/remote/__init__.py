"""`flashferry --service URL VERB`: what carries the verbs of the command line out at a remote service.

Nothing here talks to a device, and nothing of the service itself is imported.
"""
