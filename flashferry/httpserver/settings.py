"""How HTTP and HTTPS are served, and the listeners that a file server is given for them."""

from dataclasses import asdict, dataclass
from pathlib import Path

from flashferry.fileserver import ListenerSettings
from flashferry.httpserver.certificate import check_certificate

PROTOCOL = "flashferry.httpserver.listener:HttpListener"
"""Where a file server finds both."""

CLEAR, ENCRYPTED = ("http",), ("https",)
"""What is served, as tickets name it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpOptions:
    """What is HTTP's own in how a server runs.

    Attributes:
        certificate: File with our certificate, those of its issuers behind it; empty: in clear text.
        key: File with its private key.
    """

    certificate: str = ""
    key: str = ""

    @property
    def transports(self) -> tuple[str, ...]:
        """What is served by them."""
        return ENCRYPTED if self.certificate else CLEAR


def http_listener(
    *,
    listen_address: str = "0.0.0.0",  # noqa: S104 - routers reach us by any interface; tickets decide who gets what
    port: int = 0,
) -> ListenerSettings:
    """Return a listener for HTTP; see `ListenerSettings`.

    Raises:
        SettingsInvalid: An argument is out of its range.
    """
    return ListenerSettings(
        protocol=PROTOCOL,
        listen_address=listen_address,
        port=port,
        transports=CLEAR,
        options=asdict(HttpOptions()),
    )


def https_listener(
    *,
    listen_address: str = "0.0.0.0",  # noqa: S104 - as above
    port: int = 0,
    certificate: Path,
    key: Path,
) -> ListenerSettings:
    """Return a listener for HTTPS; it never speaks clear text.

    Args:
        listen_address: See `ListenerSettings`.
        port: The same.
        certificate: File with our certificate, which devices trust already, in PEM; those of its issuers behind it.
        key: File with its private key, in PEM and without a passphrase, which others cannot read.

    Raises:
        SettingsInvalid: An argument is out of its range, or one of both files will not do; see `check_certificate`.
    """
    check_certificate(certificate, key)
    return ListenerSettings(
        protocol=PROTOCOL,
        listen_address=listen_address,
        port=port,
        transports=ENCRYPTED,
        options=asdict(HttpOptions(certificate=str(certificate.absolute()), key=str(key.absolute()))),
    )
