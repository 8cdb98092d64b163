"""The file server: it feeds routers and is the witness of every transfer, whatever the protocol.

Tickets, caps, congestion control, telemetry and records are here, and the process that serves; a protocol is loaded by
its name, see `protocol`. Everybody else uses what this module names, and nothing past it.
"""

from typing import TYPE_CHECKING

from flashferry.fileserver.errors import (
    FileServerError,
    RequestRefused,
    ServerGone,
    ServerStartFailed,
    SettingsInvalid,
    TicketUnknown,
)
from flashferry.fileserver.fixed_login import FixedLogin
from flashferry.fileserver.host_capabilities import (
    DESCRIPTORS_PER_SESSION,
    CongestionControl,
    HostCapabilities,
    may_bind,
    probe_capabilities,
    raise_soft_limit,
)
from flashferry.fileserver.records import (
    EventKind,
    LoginFailure,
    SenderReport,
    ServerEvent,
    TransferProgress,
    TransferRecord,
    TransferState,
)
from flashferry.fileserver.server import FileServer
from flashferry.fileserver.settings import Limits, ListenerSettings, SenderProfile, ServerSettings
from flashferry.fileserver.site_rates import SiteRates, delivery_of, network_of
from flashferry.fileserver.tickets import SshOffer, Ticket, TicketRequest
from flashferry.images.catalogue import Catalogue
from flashferry.images.files import FileIdentity
from flashferry.images.image import ImageFile

if TYPE_CHECKING:
    # A type alone: who only asks for an account waits for no sender to be imported.
    from flashferry.fileserver.processes.pushes import PushAccount as PushAccount

__all__ = [
    "DESCRIPTORS_PER_SESSION",
    "Catalogue",
    "CongestionControl",
    "EventKind",
    "FileIdentity",
    "FileServer",
    "FileServerError",
    "FixedLogin",
    "HostCapabilities",
    "ImageFile",
    "Limits",
    "ListenerSettings",
    "LoginFailure",
    "RequestRefused",
    "SenderProfile",
    "SenderReport",
    "ServerEvent",
    "ServerGone",
    "ServerSettings",
    "ServerStartFailed",
    "SettingsInvalid",
    "SiteRates",
    "SshOffer",
    "Ticket",
    "TicketRequest",
    "TicketUnknown",
    "TransferProgress",
    "TransferRecord",
    "TransferState",
    "delivery_of",
    "may_bind",
    "network_of",
    "probe_capabilities",
    "raise_soft_limit",
]
