"""The tuned FTP server: it feeds routers and is the witness of every transfer."""

from flashferry.images.catalogue import Catalogue, ImageFile
from flashferry.images.files import FileIdentity
from ftpserver.errors import (
    FtpServerError,
    ImageUnknown,
    ImageUnreadable,
    RequestRefused,
    ServerGone,
    ServerStartFailed,
    SettingsInvalid,
    TicketUnknown,
)
from ftpserver.grants import Grant, ServerGrants, may_bind, probe_grants
from ftpserver.logins import FixedLogin
from ftpserver.records import (
    EventKind,
    LoginFailure,
    SenderReport,
    ServerEvent,
    TransferProgress,
    TransferRecord,
    TransferState,
)
from ftpserver.server import FtpServer
from ftpserver.settings import Limits, SenderProfile, ServerSettings
from ftpserver.site_rates import SiteRates, delivery_of, network_of
from ftpserver.tickets import Ticket, TicketRequest

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
