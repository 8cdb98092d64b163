"""What the server reports about a ticket: its state, its progress, events, and the record of each transfer."""

from enum import StrEnum
from typing import Any

from msgspec import Struct

from flashferry.core.codec import to_json
from flashferry.tcp.sample import Sample
from flashferry.tcp.syn import SynOptions
from flashferry.tcp.verdict import OwnPace, Verdict, VerdictKind


class TransferState(StrEnum):
    """State of a ticket."""

    WAITING = "waiting"
    CONNECTED = "connected"
    LOGGED_IN = "logged in"
    TRANSFERRING = "transferring"
    STALLED = "stalled"
    DELIVERED = "delivered"
    FAILED = "failed"

    @property
    def is_final(self) -> bool:
        """Whether no transfer is active; a failed ticket with tries left may start again."""
        return self in (TransferState.DELIVERED, TransferState.FAILED)


class SenderReport(Struct, frozen=True, kw_only=True):
    """Socket options that the sender requested, and those in force (read back).

    Attributes:
        congestion_control_asked: Congestion control in the profile, such as `auto`.
        congestion_control_chosen: The policy's choice; None kept the kernel's default.
        congestion_control: Congestion control in force when the transfer ended.
        reason: Reason of the choice, and what the kernel refused.
        cap_asked_bytes_per_s: Requested pacing cap; None for none.
        cap_bytes_per_s: Pacing cap in force; None for none.
        cap_source: Source of the cap in words: given, or learned from which transfer and when; empty without a cap.
        shared_cap_bytes_per_s: The cap, such as a site's, of which the pacing cap was a share at any time, or None.
        pace_bytes_per_s: Pace in force at the end if the transfer searched for its own; None if it did not.
        found_link_bytes_per_s: Link rate found by that search, for all transfers of the site together; None if none
            was found, for example because the transfer was short or limited by its receiver.
    """

    congestion_control_asked: str
    congestion_control_chosen: str | None
    congestion_control: str
    reason: str
    cap_asked_bytes_per_s: int | None
    cap_bytes_per_s: int | None
    cap_source: str = ""
    shared_cap_bytes_per_s: int | None = None
    pace_bytes_per_s: int | None = None
    found_link_bytes_per_s: int | None = None

    @property
    def own_pace(self) -> OwnPace | None:
        """Result of the transfer's search for a pace; None if it did not search."""
        if self.pace_bytes_per_s is None:
            return None
        return OwnPace(found_link_bytes_per_s=self.found_link_bytes_per_s)

    @property
    def is_slowed(self) -> bool:
        """Whether the pace in force is below the requested cap, because the policy lowered it after losses."""
        asked, in_force = self.cap_asked_bytes_per_s, self.cap_bytes_per_s
        return asked is not None and in_force is not None and in_force < asked


class TransferRecord(Struct, frozen=True, kw_only=True):
    """One transfer from its request to its end. Holds no secret.

    Attributes:
        ticket_id: The ticket it ran under.
        image_name: The image.
        peer_address: Address of the client.
        outcome: `delivered`, or why not.
        started_at: Wall-clock time of the request, seconds since 1970 (UTC).
        first_byte_s: Seconds from the request until the first byte was handed to the kernel; None if none was.
        last_byte_s: Until the last byte was.
        last_ack_s: Until the last acknowledgement of data was seen.
        offset_bytes: Where it began (REST).
        size_bytes: Size of the image.
        bytes_sent: Payload handed to the kernel.
        bytes_acked: Payload acknowledged by the client.
        duration_s: First byte to last acknowledgement.
        rate_bytes_per_s: Acknowledged payload over that time.
        retransmitted_bytes: Bytes sent again.
        retransmitted_share: Those as a part of all bytes sent.
        min_rtt_s: Least round-trip time.
        srtt_s: Smoothed round-trip time at the end.
        max_window_bytes: Largest receive window seen.
        control_syn: The SYN of the control connection.
        data_syn: The SYN of the data connection; None in active mode, in which we connect.
        mss_bytes: Segment size in force.
        sack: Whether SACK was negotiated on the data connection.
        sender: What the sender asked for and got.
        verdict: What limited it.
        samples: Readings of TCP_INFO, thinned evenly on long transfers.
        commands: The commands and replies of the session so far, secrets masked.
        channel_window_bytes: Largest window that the client opened in its SSH channel; None without a channel.
        cipher: Name of the cipher as its protocol calls it; empty in clear text.
        mac: Name of the MAC; empty without one, as with ciphers that authenticate by themselves.
        client: SSH version or User-Agent of the client; empty if unknown.
        transport: Name of the transport.
    """

    ticket_id: str
    image_name: str
    peer_address: str
    outcome: str
    started_at: float
    first_byte_s: float | None
    last_byte_s: float | None
    last_ack_s: float | None
    offset_bytes: int
    size_bytes: int
    bytes_sent: int
    bytes_acked: int
    duration_s: float
    rate_bytes_per_s: float
    retransmitted_bytes: int | None
    retransmitted_share: float | None
    min_rtt_s: float | None
    srtt_s: float | None
    max_window_bytes: int | None
    control_syn: SynOptions | None
    data_syn: SynOptions | None
    mss_bytes: int | None
    sack: bool
    sender: SenderReport
    verdict: Verdict
    samples: tuple[Sample, ...]
    commands: tuple[str, ...]
    channel_window_bytes: int | None = None
    cipher: str = ""
    mac: str = ""
    client: str = ""
    transport: str = "ftp"

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values for `json.dumps`."""
        result = to_json(self)
        assert isinstance(result, dict)
        return result


class TransferProgress(Struct, frozen=True, kw_only=True):
    """A ticket at one moment.

    Attributes:
        ticket_id: The ticket.
        image_name: The image it is for.
        state: Its state.
        sequence: Increases with every change of this ticket.
        peer_address: Address of the client; None before it connected.
        control_syn: The SYN of the control connection, which shows the router's TCP settings.
        data_syn: The SYN of the data connection.
        rtt_s: Smoothed round-trip time, of the control connection until data flows.
        size_bytes: Size of the image.
        bytes_acked: Bytes of the image the client has acknowledged, those before a resumption included.
        rate_bytes_per_s: Rate of the last sample interval; 0 once the transfer ended, its own rate is in the record.
        congestion_control: In force on the data connection.
        tries_left: Transfers that may still start.
        limited_by: What has limited the current transfer so far; None while unknown.
        last_error: The last failure, in a sentence; empty if none.
        record: Record of the last finished transfer.
        transport: Transport of the current or last transfer; None before the first.
        site: The site whose cap it shares; empty for none.
    """

    ticket_id: str
    state: TransferState
    sequence: int
    size_bytes: int
    tries_left: int
    peer_address: str | None = None
    control_syn: SynOptions | None = None
    data_syn: SynOptions | None = None
    rtt_s: float | None = None
    bytes_acked: int = 0
    rate_bytes_per_s: float = 0.0
    congestion_control: str | None = None
    limited_by: VerdictKind | None = None
    last_error: str = ""
    record: TransferRecord | None = None
    image_name: str = ""
    transport: str | None = None
    site: str = ""


class EventKind(StrEnum):
    """What an event is about."""

    CONNECTED = "connected"
    LOGIN = "login"
    LOGIN_FAILED = "login failed"
    START = "start"
    PROGRESS = "progress"
    STALLED = "stalled"
    DONE = "done"
    FAILED = "failed"
    NOTICE = "notice"
    GONE = "gone"
    """The server's process has ended, in order or not; nothing follows."""


class ServerEvent(Struct, frozen=True, kw_only=True):
    """Something that happened in the server.

    Attributes:
        kind: What it is about.
        at: Wall-clock time, seconds since 1970 (UTC).
        text: The event in words, without secrets.
        peer_address: The client, if one is concerned.
        progress: The ticket after the event, if one is concerned.
        sample: The reading behind a progress event, if `ServerSettings.stream_samples` asks for it.
    """

    kind: EventKind
    at: float
    text: str
    peer_address: str | None = None
    progress: TransferProgress | None = None
    sample: Sample | None = None

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values for `json.dumps`: a line of an event log."""
        result = to_json(self)
        assert isinstance(result, dict)
        return result


class LoginFailure(Struct, frozen=True, kw_only=True):
    """A failed login that belongs to no ticket: its user is unknown, or that of a fixed login."""

    at: float
    peer_address: str
    username_masked: str
    reason: str
    site: str = ""
    """Site of a fixed login whose user was named; empty: the user is unknown."""


class TicketUse(Struct, frozen=True, kw_only=True):
    """Numbers of used attempts of a ticket, reported by a process that has just used one.

    Attributes:
        ticket_id: The ticket.
        here: Attempts used in this process, this one included.
        elsewhere: Attempts used in the other processes, as far as this one knows; if some are missing, this attempt is
            not the newest.
    """

    ticket_id: str
    here: int
    elsewhere: int
