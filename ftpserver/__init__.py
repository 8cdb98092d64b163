"""FTP for the file server: control connections, sessions and data connections.

Only the commands that a router needs exist: login by ticket, and one image over a passive or active data connection,
extended or not. All that is not specific to FTP is in `flashferry.fileserver`.
"""

from ftpserver.control import FtpOptions, ftp_listener

__all__ = ["FtpOptions", "ftp_listener"]
