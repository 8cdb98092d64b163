"""Connections to a device's SSH server by paramiko, which the tests and the held figures of pushes share."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import paramiko

from flashferry.lab.world import DeviceAccess, World, in_core


def connected(device: DeviceAccess) -> socket.socket:
    """Return a connection that a small window does not slow down more than it must.

    Set before it opens: a connection that began with BBR stays paced whatever it has later (70 kB/s in place of 80).
    And without TCP_NODELAY, which paramiko does not set, the tail of each window waits for an acknowledgement (51).
    """
    connection = socket.socket()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.connect((device.address, device.port))
    return connection


@contextlib.contextmanager
def paramiko_session(world: World, device: DeviceAccess) -> Iterator[paramiko.SSHClient]:
    """Log in from the core by password."""
    with in_core(world):
        client = paramiko.SSHClient()
        client.set_missing_host_key_policy(paramiko.AutoAddPolicy())
        client.connect(
            device.address, device.port, device.username, device.password, look_for_keys=False, allow_agent=False,
            sock=connected(device),
        )  # fmt: skip
        try:
            yield client
        finally:
            client.close()
