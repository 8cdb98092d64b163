"""The device's clients: which one carries a copy, by the protocol of its URL."""

from __future__ import annotations

from flashferry.lab.standin.ftp_pull import Pull
from flashferry.lab.standin.ftp_push import Push
from flashferry.lab.standin.http_transfer import HttpPull, HttpPush
from flashferry.lab.standin.silent_transfer import SilentPull, SilentPush
from flashferry.lab.standin.tftp_transfer import TftpPull, TftpPush

PULLS: dict[str, type[Pull | TftpPull]] = {
    "ftp": Pull,
    "http": HttpPull,
    "https": HttpPull,
    "rcp": SilentPull,
    "tftp": TftpPull,
}
"""Downloads, but for those over SSH: see `flashferry.lab.standin.copy_ssh`."""

PUSHES: dict[str, type[Push | TftpPush]] = {
    "ftp": Push,
    "http": HttpPush,
    "https": HttpPush,
    "rcp": SilentPush,
    "scp": SilentPush,
    "sftp": SilentPush,
    "tftp": TftpPush,
}
"""Uploads."""

SOURCE_INTERFACE_LINES = {
    "ftp": "ip ftp source-interface",
    "http": "ip http client source-interface",
    "https": "ip http client source-interface",
    "rcp": "ip rcmd source-interface",
    "scp": "ip ssh source-interface",
    "sftp": "ip ssh source-interface",
    "tftp": "ip tftp source-interface",
}
"""The configuration line that names the interface a client's connections leave by (Cisco command references)."""
