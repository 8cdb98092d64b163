"""Run the file server as one long-lived process per host, which all runs use over a Unix socket.

All runs share one port 21, and each site's rate limit and slots. Without a depot, a run starts its own file server.
"""
