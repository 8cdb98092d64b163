"""The file server as one long-lived process per host, which all runs use over a Unix socket.

One port 21 for all of them, and a site's cap and slots are shared by all runs at once. Where no depot runs, a run
brings its own file server, as ever.
"""
