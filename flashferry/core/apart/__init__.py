"""A verb as a process of its own, which outlives its parent: its mark, its folder, and its first actions.

A service and a site's agent start runs so: whichever process is killed, and when, nothing is started twice, and what a
process came to is found again by its files.
"""
