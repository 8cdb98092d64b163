"""`flashferry --service URL VERB`: carry out verbs at a remote service through its API.

These modules contact no device and import nothing of the service itself.
"""
