"""How SSH is served, and the listener that a file server is given for it.

Facts
-----

- Who only asks for a listener needs no asyncssh: it is loaded by the serving process alone. So whether it is there is
  looked up before anything starts, and not found out by a process that does not come up.
- The keys are made, or looked at, here as well, where the operator reads what is wrong with them. The serving process
  reads them again: no key goes over the line between the two.
"""

import os
from importlib.util import find_spec
from pathlib import Path

from flashferry.core.extras import extra_hint
from flashferry.fileserver import ListenerSettings, SettingsInvalid
from flashferry.sshserver.host_keys import load_host_keys

PROTOCOL = "flashferry.sshserver.protocol:SshListener"
"""Where a file server finds SSH."""

TRANSPORTS = ("scp", "sftp")
"""What is served there, as tickets name it."""

PROCESS = "ssh"
"""asyncssh wants asyncio's loop, and ciphers take processor time that other protocols need not wait for."""


def ssh_listener(
    *,
    host_keys: Path,
    listen_address: str = "0.0.0.0",  # noqa: S104 - routers reach us by any interface; tickets decide who gets what
    port: int = 0,
) -> ListenerSettings:
    """Return a listener for SCP and SFTP; see `ListenerSettings`.

    Args:
        host_keys: Folder that keeps the server's keys; those that are not there yet are made.
        listen_address: Address to listen on.
        port: 0 takes any free one.

    Raises:
        SettingsInvalid: The extra `scp` is not installed, a key cannot be used, or an argument is out of its range.
    """
    if find_spec("asyncssh") is None:
        raise SettingsInvalid(
            "SCP and SFTP: expected the package asyncssh, found none",
            hint=extra_hint("scp"),
        )
    listener = ListenerSettings(
        protocol=PROTOCOL,
        listen_address=listen_address,
        port=port,
        transports=TRANSPORTS,
        process=PROCESS,
        # As bytes, for a folder's name need not be UTF-8.
        options={"host_keys": os.fsencode(host_keys.absolute())},
    )
    load_host_keys(host_keys)
    return listener
