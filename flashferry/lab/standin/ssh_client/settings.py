"""What the running configuration and the release say about a copy over SSH."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashferry.lab.standin.ssh_client.figures import SshManner

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flashferry.lab.standin.configuration import Configuration
    from flashferry.lab.standin.ssh_client.figures import SshFigures

_FULL_NAMES = {
    name.partition("@")[0]: name
    for name in (
        "aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "chacha20-poly1305@openssh.com",
        "hmac-sha2-256-etm@openssh.com", "hmac-sha2-512-etm@openssh.com",
    )
}  # fmt: skip
"""IOS takes and shows some of them without what stands behind the @."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SshSettings(SshManner):
    """How a copy over SSH goes about it.

    Attributes:
        window_bytes: Receive window of its channel.
        is_strict: `ip ssh stricthostkeycheck`: a key that is not known is refused.
    """

    window_bytes: int
    is_strict: bool


def ssh_settings(
    configuration: Configuration, figures: SshFigures, *, crypto: Mapping[str, float] | None = None
) -> SshSettings:  # fmt: skip
    """Read the `ip ssh` lines.

    `ip ssh bulk-mode` counts before `ip ssh window-size`; which of two lines counts is not documented.

    Args:
        configuration: The running configuration.
        figures: What holds without lines.
        crypto: Speeds of the platform that differ from those of its release.
    """
    window_bytes = channel_window_bytes(configuration, figures)
    strict = configuration.value("ip ssh stricthostkeycheck")
    return SshSettings(
        window_bytes=window_bytes,
        packet_bytes=min(figures.packet_bytes, window_bytes),
        refill=figures.refill,
        kex=_listed(configuration, "kex", figures.kex),
        encryption=_listed(configuration, "encryption", figures.encryption),
        mac=_listed(configuration, "mac", figures.mac),
        host_keys=figures.host_keys,
        host_key_policy="accept-new" if strict == "accept-new" else figures.host_key_policy,
        is_strict=strict == "",
        password_prompts=figures.password_prompts,
        sftp_requests=figures.sftp_requests,
        crypto_bytes_per_s={**figures.crypto_bytes_per_s, **(crypto or {})},
    )


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
