"""The tuned FTP server: it feeds routers and is the witness of every transfer."""

from flashferry.fileserver.errors import (
    FtpServerError,
    ImageUnknown,
    ImageUnreadable,
    RequestRefused,
    ServerGone,
    ServerStartFailed,
    SettingsInvalid,
    TicketUnknown,
)
from flashferry.fileserver.host_capabilities import Grant, ServerGrants, may_bind, probe_grants
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
from flashferry.fileserver.server import FtpServer
from flashferry.fileserver.settings import Limits, SenderProfile, ServerSettings
from flashferry.fileserver.site_rates import SiteRates, delivery_of, network_of
from flashferry.fileserver.tickets import Ticket, TicketRequest
from flashferry.images.catalogue import Catalogue, ImageFile
from flashferry.images.files import FileIdentity

__all__ = [
    "Catalogue",
    "EventKind",
    "FileIdentity",
    "FixedLogin",
    "FtpServer",
    "FtpServerError",
    "Grant",
    "ImageFile",
    "ImageUnknown",
    "ImageUnreadable",
    "Limits",
    "LoginFailure",
    "RequestRefused",
    "SenderProfile",
    "SenderReport",
    "ServerEvent",
    "ServerGone",
    "ServerGrants",
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
    "probe_grants",
]
