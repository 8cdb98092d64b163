"""What the SSH client of a release is like: windows, lists and the speed of its ciphers, read from data files.

What a file marks as assumed was seen on no device. What a client prints where it fails is data of the platform: see
`flashferry.lab.standin.wording`.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, cast

from flashferry.lab.datafile import Table, read_table
from flashferry.lab.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Mapping

Refill = Literal["half", "three packets", "packet"]
HostKeyPolicy = Literal["any", "accept-new", "ask"]

_PACKAGE = "flashferry.lab.standin.ssh_client.kinds"
_REFILLS = ("half", "three packets", "packet")
_POLICIES = ("any", "accept-new", "ask")


@dataclass(frozen=True, slots=True, kw_only=True)
class SshManner:
    """How an SSH client goes about it, be it as its release has it or for one copy.

    Attributes:
        packet_bytes: Largest SSH packet that it takes; no larger than the window.
        refill: When it opens the window again: once half of it is used up; once three packets are (OpenSSH, where that
            is earlier); after each packet.
        kex: Its key exchanges, in the order of its KEXINIT.
        encryption: Its ciphers.
        host_keys: Signatures of a host key that it takes.
        host_key_policy: What it does about a host key without a `stricthostkeycheck` line: ``any`` takes every key,
            ``accept-new`` keeps to the first, ``ask`` asks before it takes a first one.
        password_prompts: How often it asks for a password.
        sftp_requests: How many reads of a packet each it has under way; assumed of every release.
        crypto_bytes_per_s: How fast it decrypts, by cipher; a model, and assumed where its file does not say otherwise.
    """

    packet_bytes: int
    refill: Refill
    kex: tuple[str, ...]
    encryption: tuple[str, ...]
    mac: tuple[str, ...]
    host_keys: tuple[str, ...]
    host_key_policy: HostKeyPolicy
    password_prompts: int
    sftp_requests: int
    crypto_bytes_per_s: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SshFigures(SshManner):
    """The SSH client of a release.

    Attributes:
        name: Name of the data file.
        default_window_bytes: Receive window of a channel without `ip ssh window-size` and `ip ssh bulk-mode`.
        bulk_window_bytes: What `ip ssh bulk-mode` without a number means.
        unknown_lines: Configuration commands that the release does not know, by their first words.
    """

    name: str
    default_window_bytes: int
    bulk_window_bytes: int
    unknown_lines: tuple[str, ...]


@functools.cache
def load_figures(name: str) -> SshFigures:
    """Read the data file of a kind of client.

    Raises LabError: there is none of this name, or a value is not allowed; file and key are named.
    """
    table = read_table(_PACKAGE, name)
    table.only(*SshFigures.__dataclass_fields__.keys() - {"name"}, "sources")
    table.strings("sources")
    return SshFigures(
        name=name,
        default_window_bytes=table.integer("default_window_bytes", low=1024, high=2**30),
        bulk_window_bytes=table.integer("bulk_window_bytes", 131072, low=1024, high=2**30),
        packet_bytes=table.integer("packet_bytes", 32768, low=1024, high=2**18),
        refill=cast("Refill", _one_of(table, "refill", _REFILLS)),
        kex=table.strings("kex"),
        encryption=table.strings("encryption"),
        mac=table.strings("mac"),
        host_keys=table.strings("host_keys"),
        host_key_policy=cast("HostKeyPolicy", _one_of(table, "host_key_policy", _POLICIES)),
        password_prompts=table.integer("password_prompts", low=1, high=10),
        sftp_requests=table.integer("sftp_requests", low=1, high=256),
        unknown_lines=table.strings("unknown_lines", ()),
        crypto_bytes_per_s=speeds(table.table("crypto_bytes_per_s")),
    )


def speeds(table: Table) -> dict[str, float]:
    """Read a table of ciphers and how many bytes per second are decrypted."""
    return {name: table.number(name, low=1) for name in table.values}


def _one_of(table: Table, key: str, allowed: tuple[str, ...]) -> str:
    value = table.text(key)
    if value not in allowed:
        raise LabError(f"{table.where}: {key}: expected one of {', '.join(allowed)}, found {value!r}.")
    return value
