"""FTP on the file server: control connections, sessions, and the data connections that carry the images.

Only what a router needs is answered: a login by ticket, one image, passive or active, extended or not. Everything that
is not FTP is `flashferry.fileserver`.
"""

from ftpserver.control import FtpOptions, ftp_listener

__all__ = ["FtpOptions", "ftp_listener"]
