"""What the running configuration and the platform say about the device's own TCP connections."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashferry.lab.standin.handshake import SynOptions

if TYPE_CHECKING:
    from flashferry.lab.standin.configuration import Configuration
    from flashferry.lab.standin.platform import TcpFigures

LARGEST_UNSCALED_BYTES = 65535
"""The window field of a TCP header has 16 bits (RFC 9293 3.1)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TcpSettings:
    """How a new connection of the device opens; one that is blocked never does, and nothing of it is on the wire."""

    window_bytes: int
    syn_options: SynOptions
    synwait_s: float
    is_blocked: bool = False


def tcp_settings(configuration: Configuration, figures: TcpFigures, *, ineffective: str | None = None) -> TcpSettings:
    """Read the `ip tcp` lines.

    A window above 65535 makes IOS offer window scaling (Cisco TCP Window Scaling feature guide); without the line
    the platform's own figures hold.

    Args:
        configuration: The running configuration.
        figures: What holds without lines.
        ineffective: Lines that this expression finds are not followed, as a fault.
    """
    if ineffective:
        lines = [line for line in configuration.lines() if not re.search(ineffective, line.text)]
        configuration = configuration.refilled(lines)
    line = configuration.value("ip tcp window-size")
    window_bytes = int(line) if line else figures.default_window_bytes
    synwait = configuration.value("ip tcp synwait-time")
    return TcpSettings(
        window_bytes=window_bytes,
        syn_options=SynOptions(
            window_scaling=window_bytes > LARGEST_UNSCALED_BYTES or figures.default_window_scaling,
            sack=configuration.find("ip tcp selective-ack") is not None or figures.default_sack,
            timestamps=configuration.find("ip tcp timestamp") is not None or figures.default_timestamps,
        ),
        synwait_s=float(synwait) if synwait else figures.synwait_s,
    )
