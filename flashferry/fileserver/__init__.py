"""The file server: it sends images to devices and records every transfer, whatever the protocol.

Other packages use the names below and no module of this package. Each is imported when it is used first: most
commands start no server and need few of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flashferry.fileserver.client import ServerClient as ServerClient
    from flashferry.fileserver.client import SlotReservations as SlotReservations
    from flashferry.fileserver.errors import FileServerError as FileServerError
    from flashferry.fileserver.errors import RequestRefused as RequestRefused
    from flashferry.fileserver.errors import ServerGone as ServerGone
    from flashferry.fileserver.errors import ServerStartFailed as ServerStartFailed
    from flashferry.fileserver.errors import SettingsInvalid as SettingsInvalid
    from flashferry.fileserver.errors import TicketUnknown as TicketUnknown
    from flashferry.fileserver.fixed_login import FixedLogin as FixedLogin
    from flashferry.fileserver.host_capabilities import DESCRIPTORS_PER_SESSION as DESCRIPTORS_PER_SESSION
    from flashferry.fileserver.host_capabilities import CongestionControl as CongestionControl
    from flashferry.fileserver.host_capabilities import HostCapabilities as HostCapabilities
    from flashferry.fileserver.host_capabilities import may_bind as may_bind
    from flashferry.fileserver.host_capabilities import probe_capabilities as probe_capabilities
    from flashferry.fileserver.host_capabilities import raise_soft_limit as raise_soft_limit
    from flashferry.fileserver.link_rate_store import SiteRates as SiteRates
    from flashferry.fileserver.link_rate_store import delivery_of as delivery_of
    from flashferry.fileserver.link_rate_store import network_of as network_of
    from flashferry.fileserver.pushes import PushAccount as PushAccount
    from flashferry.fileserver.server import FileServer as FileServer
    from flashferry.fileserver.settings import Limits as Limits
    from flashferry.fileserver.settings import ListenerSettings as ListenerSettings
    from flashferry.fileserver.settings import SenderProfile as SenderProfile
    from flashferry.fileserver.settings import ServerSettings as ServerSettings
    from flashferry.fileserver.ticket_accounts import SshOffer as SshOffer
    from flashferry.fileserver.ticket_accounts import Ticket as Ticket
    from flashferry.fileserver.ticket_accounts import TicketRequest as TicketRequest
    from flashferry.fileserver.transfer_records import EventKind as EventKind
    from flashferry.fileserver.transfer_records import LoginFailure as LoginFailure
    from flashferry.fileserver.transfer_records import SenderReport as SenderReport
    from flashferry.fileserver.transfer_records import ServerEvent as ServerEvent
    from flashferry.fileserver.transfer_records import TransferProgress as TransferProgress
    from flashferry.fileserver.transfer_records import TransferRecord as TransferRecord
    from flashferry.fileserver.transfer_records import TransferState as TransferState
    from flashferry.fileserver.wire import Welcome as Welcome
    from flashferry.images.catalogue import Catalogue as Catalogue
    from flashferry.images.image import ImageFile as ImageFile
    from flashferry.images.safe_open import FileIdentity as FileIdentity

_MODULES = {
    "flashferry.fileserver.client": "ServerClient SlotReservations",
    "flashferry.fileserver.errors": (
        "FileServerError RequestRefused ServerGone ServerStartFailed SettingsInvalid TicketUnknown"
    ),
    "flashferry.fileserver.fixed_login": "FixedLogin",
    "flashferry.fileserver.host_capabilities": (
        "DESCRIPTORS_PER_SESSION CongestionControl HostCapabilities may_bind probe_capabilities raise_soft_limit"
    ),
    "flashferry.fileserver.pushes": "PushAccount",
    "flashferry.fileserver.transfer_records": (
        "EventKind LoginFailure SenderReport ServerEvent TransferProgress TransferRecord TransferState"
    ),
    "flashferry.fileserver.server": "FileServer",
    "flashferry.fileserver.settings": "Limits ListenerSettings SenderProfile ServerSettings",
    "flashferry.fileserver.link_rate_store": "SiteRates delivery_of network_of",
    "flashferry.fileserver.ticket_accounts": "SshOffer Ticket TicketRequest",
    "flashferry.fileserver.wire": "Welcome",
    "flashferry.images.catalogue": "Catalogue",
    "flashferry.images.safe_open": "FileIdentity",
    "flashferry.images.image": "ImageFile",
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}


if not TYPE_CHECKING:
    __all__ = list(_MODULE_OF)

    def __getattr__(name: str) -> Any:
        """Import a public name from its module.

        Raises:
            AttributeError: There is no such name.
        """
        if (module := _MODULE_OF.get(name)) is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = globals()[name] = getattr(import_module(module), name)
        return found
