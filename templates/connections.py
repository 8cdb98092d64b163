"""Rows of TCP connections as the device sees them."""

from __future__ import annotations

from templates.row import Row, row


@row
class Tcb(Row):
    """One connection of `show tcp`, or of a BGP neighbour's text; times in ms, windows in bytes.

    What the release does not print is None. `uptime_ms` may be negative: 32 bits wrap in a long session.
    """

    state: str
    local_host: str
    local_port: int
    foreign_host: str
    foreign_port: int
    sndwnd: int | None
    snd_scale: int | None
    maxrcvwnd: int | None
    rcvwnd: int | None
    rcv_scale: int | None
    delrcvwnd: int | None
    srtt_ms: int | None
    rtto_ms: int | None
    rtv_ms: int | None
    krtt_ms: int | None
    minrtt_ms: int | None
    maxrtt_ms: int | None
    uptime_ms: int | None
    status_flags: str
    option_flags: tuple[str, ...]
    max_data_segment: int | None
    peer_mss: int | None
    rcvd: int | None
    out_of_order: int | None
    sent: int | None
    retransmit: int | None
    fastretransmit: int | None
    partialack: int | None
    second_congestion: int | None

    @property
    def options(self) -> tuple[str, ...]:
        """Return the option flags one by one; releases wrap the list without a comma."""
        return tuple(word.strip() for line in self.option_flags for word in line.split(",") if word.strip())

    @property
    def statuses(self) -> tuple[str, ...]:
        """Return the status flags one by one."""
        return tuple(word.strip() for word in self.status_flags.split(",") if word.strip())


@row
class TcbBrief(Row):
    """One row of `show tcp brief`; host and port are joined by a dot, and `*.*` stands for any."""

    tcb: str
    local: str
    foreign: str
    state: str
