"""SCP and SFTP on the file server, by SSH: logins by ticket, one image, and nothing that a shell could do.

The only room that knows asyncssh. Bytes of the protocols are read and made by modules without any I/O (`scp`, `sftp`);
who may come and what is sent is the file server's, as with every protocol. Everything that is not SSH is
`flashferry.fileserver`.
"""

from flashferry.sshserver.algorithms import TRANSPORTS, ssh_listener
from flashferry.sshserver.host_keys import HostKey, found_host_keys, load_host_keys

__all__ = ["TRANSPORTS", "HostKey", "found_host_keys", "load_host_keys", "ssh_listener"]
