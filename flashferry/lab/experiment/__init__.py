"""The evidence: the published experiment, the sweep behind it, fairness and peers, each a command that can be resumed.

They drive the server and judge by `flashferry.tcp`, so unlike the rest of the lab they import the project. What
they measure with (stand-ins, link, vsftpd, the kernel's own accounts) does not.
"""
