"""The tuned FTP server: it feeds routers and is the witness of every transfer."""

from flashferry.fileserver.errors import (
    FileServerError,
    RequestRefused,
    ServerGone,
    ServerStartFailed,
    SettingsInvalid,
    TicketUnknown,
)
from flashferry.fileserver.host_capabilities import CongestionControl, HostCapabilities, may_bind, probe_capabilities
from flashferry.fileserver.logins import FixedLogin
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
from flashferry.fileserver.settings import Limits, SenderProfile, ServerSettings
from flashferry.fileserver.site_rates import SiteRates, delivery_of, network_of
from flashferry.fileserver.tickets import Ticket, TicketRequest
from flashferry.images.catalogue import Catalogue
from flashferry.images.digests import ImageFile
from flashferry.images.files import FileIdentity

__all__ = [
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
]
