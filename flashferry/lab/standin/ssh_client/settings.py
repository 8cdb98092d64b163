"""What a channel with a receive window carries at most: the arithmetic, to hold a measured rate against.

A sender may have sent at most the window and what refills have granted. A receiver that refills once a share of the
window is used up grants less often than a byte comes, so a window carries less than itself per round trip. With ``q``
bytes per refill and ``n`` whole refills in a window, refill ``k+1`` needs refill ``k+1-n`` and the bytes between to be
sent at the link's rate: ``n`` refills per round trip and that time.

Measured on the published WAN without loss, packets of 32 KiB, refills at the half, by a sender with CUBIC: 0.080 MB/s
for 8 KiB (0.081 calculated), 0.56 for 64 KiB (0.59), 0.85 for 128 KiB (0.89), 2.53 for 512 KiB (2.66). BBR paces what
such a window lets out, and carries 0.071, 0.44, 0.77 and 2.54.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Annotated, Any, Literal

from flashferry.lab.errors import Table, Within, read_table

if TYPE_CHECKING:
    from flashferry.lab.standin.configuration import Configuration


def is_due(refill: Refill, *, used_bytes: int, window_bytes: int, packet_bytes: int) -> bool:
    """Return whether a receiver that has consumed so much since its last refill opens its window again."""
    if not used_bytes:
        return False
    if refill == "packet":
        return True
    over_half = window_bytes - used_bytes < window_bytes / 2
    return over_half or (refill == "three packets" and used_bytes > 3 * packet_bytes)


def refill_bytes(refill: Refill, *, window_bytes: int, packet_bytes: int, sent_bytes: int | None = None) -> int:
    """Return how many bytes come between two refills when the sender's packets hold ``sent_bytes``."""
    piece = min(sent_bytes or packet_bytes, packet_bytes, window_bytes)
    used = 0
    while not is_due(refill, used_bytes=used, window_bytes=window_bytes, packet_bytes=packet_bytes):
        used = min(used + piece, window_bytes)
    return used


def rate_bytes_per_s(
    refill: Refill, *, window_bytes: int, packet_bytes: int, rtt_s: float, link_bytes_per_s: float,
    sent_bytes: int | None = None,
) -> float:  # fmt: skip
    """Return what the channel carries at most, in bytes of payload per second.

    The sender puts `sent_bytes` into a packet, None for the largest; without a window the path carries
    `link_bytes_per_s`.
    """
    each = refill_bytes(refill, window_bytes=window_bytes, packet_bytes=packet_bytes, sent_bytes=sent_bytes)
    count = window_bytes // each
    period_s = rtt_s + ((count + 1) * each - window_bytes) / link_bytes_per_s
    return min(link_bytes_per_s, count * each / period_s)


Refill = Literal["half", "three packets", "packet"]
HostKeyPolicy = Literal["any", "accept-new", "ask"]
_PACKAGE = "flashferry.lab.standin.ssh_client.kinds"


@dataclass(frozen=True, slots=True, kw_only=True)
class SshManner:
    """How an SSH client goes about it, be it as its release has it or for one copy.

    Attributes:
        packet_bytes: Largest SSH packet that it takes; no larger than the window.
        refill: When it opens the window again: once half of it is used up; once three packets are (OpenSSH, where that
            is earlier); after each packet.
        host_keys: Signatures of a host key that it takes.
        host_key_policy: What it does about a host key without a `stricthostkeycheck` line: ``any`` takes every key,
            ``accept-new`` keeps to the first, ``ask`` asks before it takes a first one.
        sftp_requests: How many reads of a packet each it has under way; assumed of every release.
        crypto_bytes_per_s: How fast it decrypts, by cipher; a model, and assumed where its file does not say otherwise.
    """

    packet_bytes: Annotated[int, Within(1024, 2**18)] = 32768
    refill: Refill
    kex: tuple[str, ...]
    encryption: tuple[str, ...]
    mac: tuple[str, ...]
    host_keys: tuple[str, ...]
    host_key_policy: HostKeyPolicy
    password_prompts: Annotated[int, Within(1, 10)]
    sftp_requests: Annotated[int, Within(1, 256)]
    crypto_bytes_per_s: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SshFigures(SshManner):
    """The SSH client of a release.

    Attributes:
        bulk_window_bytes: What `ip ssh bulk-mode` without a number means.
        unknown_lines: Configuration commands that the release does not know, by their first words.
    """

    name: str
    default_window_bytes: Annotated[int, Within(1024, 2**30)]
    bulk_window_bytes: Annotated[int, Within(1024, 2**30)] = 131072
    unknown_lines: tuple[str, ...] = ()


@functools.cache
def load_figures(name: str) -> SshFigures:
    """Read the data file of a kind of client.

    Raises LabError: there is none of this name, or a value is not allowed; file and key are named.
    """
    table = read_table(_PACKAGE, name)
    table.strings("sources")
    crypto = speeds(table.table("crypto_bytes_per_s"))
    return table.record(SshFigures, "sources", "crypto_bytes_per_s", name=name, crypto_bytes_per_s=crypto)


def speeds(table: Table) -> dict[str, float]:
    """Read a table of ciphers and how many bytes per second are decrypted."""
    return {name: table.number(name, low=1) for name in table.values}


_FULL_NAMES = {
    name.partition("@")[0]: name
    for name in (
        "aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "chacha20-poly1305@openssh.com",
        "hmac-sha2-256-etm@openssh.com", "hmac-sha2-512-etm@openssh.com",
    )
}  # fmt: skip
"""IOS takes and shows some of them without what stands after the @."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SshSettings(SshManner):
    """How a copy over SSH goes about it; where `is_strict`, a key that is not known is refused."""

    window_bytes: int
    is_strict: bool


def ssh_settings(
    configuration: Configuration, figures: SshFigures, *, crypto: Mapping[str, float] | None = None
) -> SshSettings:  # fmt: skip
    """Read the `ip ssh` lines; `crypto` are speeds of the platform that differ from those of its release.

    `ip ssh bulk-mode` counts before `ip ssh window-size`; which of two lines counts is not documented.
    """
    window_bytes = channel_window_bytes(configuration, figures)
    strict = configuration.value("ip ssh stricthostkeycheck")
    manner: dict[str, Any] = {each.name: getattr(figures, each.name) for each in fields(SshManner)}
    manner |= {kind: _listed(configuration, kind, manner[kind]) for kind in ("kex", "encryption", "mac")}
    manner["packet_bytes"] = min(figures.packet_bytes, window_bytes)
    manner["crypto_bytes_per_s"] = {**figures.crypto_bytes_per_s, **(crypto or {})}
    if strict == "accept-new":
        manner["host_key_policy"] = "accept-new"
    return SshSettings(window_bytes=window_bytes, is_strict=strict == "", **manner)


def channel_window_bytes(configuration: Configuration, figures: SshFigures) -> int:
    """Return the receive window of a channel: of `ip ssh bulk-mode`, else `ip ssh window-size`, else the release."""
    bulk = configuration.value("ip ssh bulk-mode")
    if bulk is not None:
        return int(bulk) if bulk else figures.bulk_window_bytes
    line = configuration.value("ip ssh window-size")
    return int(line) if line else figures.default_window_bytes


def has_bulk_mode(configuration: Configuration) -> bool:
    """Return whether `ip ssh bulk-mode` is on, which also turns SACK on (Cisco ESS9300 guide)."""
    return configuration.value("ip ssh bulk-mode") is not None


def _listed(configuration: Configuration, kind: str, without_line: tuple[str, ...]) -> tuple[str, ...]:
    line = configuration.value(f"ip ssh client algorithm {kind}")
    return tuple(_FULL_NAMES.get(name, name) for name in line.split()) if line else without_line
