"""What is run: one copy over one link, described well enough to be run again anywhere."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

PAYLOAD_SHARE = 1460 / 1500
"""Payload of a full segment without timestamps, as part of the packet that the link counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSetting:
    """The emulated WAN of a cell, the same in both directions.

    Attributes:
        rate_bps: Bits of IP packets per second.
        rtt_s: Round-trip time of an empty link, seconds.
        loss_ratio: Share of packets lost at random, 0 to 1.
        queue_packets: Room before the narrow link.
        policer_bps: Bits of IP packets per second beyond which a policer before it drops; None for none.
        policer_burst_bytes: What that lets through at once.
    """

    rate_bps: float = 50e6
    rtt_s: float = 0.1
    loss_ratio: float = 0.0001
    queue_packets: int = 1000
    policer_bps: float | None = None
    policer_burst_bytes: int | None = None

    @property
    def payload_bytes_per_s(self) -> float:
        """What full segments of 1460 bytes carry at most."""
        return self.rate_bps / 8 * PAYLOAD_SHARE

    def changes(self) -> dict[str, Any]:
        """Return it as `World.renew_link` takes it."""
        policer = {} if self.policer_burst_bytes is None else {"policer_burst_bytes": self.policer_burst_bytes}
        return {
            "rate_bps": self.rate_bps,
            "delay_s": self.rtt_s / 2,
            "loss_ratio": self.loss_ratio,
            "queue_packets": self.queue_packets,
            "policer_rate_bps": self.policer_bps,
            **policer,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """Who sends, and how.

    Attributes:
        program: `vsftpd`, or `ours`.
        control: For vsftpd the congestion control of the whole host; for ours that of the profile, also `auto`.
        cap_share: Pacing cap as a share of the link's payload, > 0; None for none. Ours only.
    """

    program: str
    control: str
    cap_share: float | None = None

    @property
    def name(self) -> str:
        """How tables call it."""
        host_wide = "host-wide " if self.program == "vsftpd" and self.control == "bbr" else ""
        cap = " with cap" if self.cap_share is not None and self.control == "bbr" else ""
        return f"{self.program} {host_wide}{self.control.upper() if self.control != 'auto' else 'auto'}{cap}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Receiver:
    """Who fetches.

    Attributes:
        kind: `linux` (a plain client), `xe` or `ios` (a stand-in by SSH, to its flash), or `pull` (the stand-in's FTP
            client by itself, which writes nowhere).
        window_bytes: Receive window; None for what the kind has by itself.
        sack: Whether SACK is offered; a Linux client always does.
        read_bytes_per_s: How fast a `pull` takes what came, as a slow flash does; None as fast as it can.
    """

    kind: str
    window_bytes: int | None = None
    sack: bool = False
    read_bytes_per_s: float | None = None

    @property
    def lines(self) -> tuple[str, ...]:
        """The configuration lines that make a stand-in so."""
        window = () if self.window_bytes is None else (f"ip tcp window-size {self.window_bytes}",)
        return (*window, *(("ip tcp selective-ack",) if self.sack else ()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One copy.

    Attributes:
        study: What it belongs to: `published`, `sweep`, `fairness`.
        arm: How the study's tables call its receiver.
        receiver: Who fetches.
        sender: Who sends.
        link: Over what.
        size_bytes: How much; the length of the file.
        seed: Seeds the link's random losses.
        seconds: The client leaves after so long, whatever it has got by then; None fetches the whole file.
        beside: Another client fetches from vsftpd under CUBIC over the same link meanwhile; only with `seconds`.
        keeps_samples: Whether the readings are kept, for graphs; they are many.
    """

    study: str
    arm: str
    receiver: Receiver
    sender: Sender
    size_bytes: int
    seed: int
    link: LinkSetting = field(default_factory=LinkSetting)
    seconds: float | None = None
    beside: bool = False
    keeps_samples: bool = True

    @property
    def key(self) -> str:
        """Return what distinguishes it from every other cell: its own description."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))

    @property
    def title(self) -> str:
        """Return it in a few words, for progress."""
        return f"{self.arm}, {self.sender.name}, seed {self.seed}"

    @property
    def cap_bytes_per_s(self) -> int | None:
        """The pacing cap in payload bytes per second."""
        share = self.sender.cap_share
        return None if share is None else int(share * self.link.payload_bytes_per_s)


def cell_from_json(values: dict[str, Any]) -> Cell:
    """Undo `asdict` of a cell."""
    return Cell(
        **values
        | {
            "receiver": Receiver(**values["receiver"]),
            "sender": Sender(**values["sender"]),
            "link": LinkSetting(**values["link"]),
        }
    )
