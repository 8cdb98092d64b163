"""Jobs: a command-line verb as a process of its own, which outlives its parent and has a folder for its files.

A service and a site's agent start runs in this way: whichever process is killed, and when, nothing is started twice,
and the result of a process is found by its files.
"""
