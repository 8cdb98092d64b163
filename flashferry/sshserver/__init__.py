"""SCP and SFTP for the file server: login by ticket, one image, and no shell.

The only package that uses asyncssh. Messages of SCP and SFTP are parsed and built without I/O in `scp`; logins,
admission and sending are in `flashferry.fileserver`, as for every protocol.
"""

from flashferry.sshserver.algorithms import TRANSPORTS, ssh_listener
from flashferry.sshserver.host_keys import HostKey, found_host_keys, load_host_keys

__all__ = ["TRANSPORTS", "HostKey", "found_host_keys", "load_host_keys", "ssh_listener"]
