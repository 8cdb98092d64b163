"""Options for how devices fetch from us and where our server listens, shared by all verbs that serve."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from flashferry.cli.command_line import HERE, SERVER
from flashferry.cli.options.policy import option_of
from flashferry.cli.options.shared import AddressOption, DepotOption, PortOption, carried
from flashferry.core.errors import ConfigInvalid
from flashferry.model.policy import ServerPlace
from inventory.transport_policy import AUTO

_option = functools.partial(typer.Option, rich_help_panel=SERVER)

TransportOption = Annotated[str | None, option_of("transport")]


def _port_option(name: str, variable: str, what: str, usual: int, other: int) -> Any:
    return _option(
        name,
        envvar=variable,
        metavar="PORT",
        min=0,
        max=65535,
        help=f"{what} port (default: {usual} if allowed, else the first free one from {other} on).",
    )


HttpPortOption = Annotated[int | None, _port_option("--http-port", "FLASHFERRY_HTTP_PORT", "HTTP", 80, 8080), HERE]
HttpsPortOption = Annotated[int | None, _port_option("--https-port", "FLASHFERRY_HTTPS_PORT", "HTTPS", 443, 8443), HERE]
SshPortOption = Annotated[
    int | None, _port_option("--ssh-port", "FLASHFERRY_SSH_PORT", "Our SSH server's", 22, 2222), HERE
]
CertificateOption = Annotated[
    Path | None,
    _option(
        "--certificate",
        envvar="FLASHFERRY_CERTIFICATE",
        metavar="FILE",
        help="Our certificate for HTTPS, PEM, with those of its issuers; devices must trust it already.",
    ),
    HERE,
]
KeyOption = Annotated[
    Path | None,
    _option("--key", envvar="FLASHFERRY_KEY", metavar="FILE", help="Its private key, PEM, readable by us alone."),
    HERE,
]


TransportsOption = Annotated[
    str | None,
    typer.Option(
        "--transports",
        metavar="NAME,NAME",
        help="What to serve, separated by commas: ftp, http, scp, https, sftp (default: ftp).",
    ),
]
ListenOption = Annotated[str, typer.Option("--listen", metavar="ADDRESS", help="Address to listen on.")]
MasqueradeOption = Annotated[
    str | None, typer.Option("--masquerade", metavar="ADDRESS", help="Address to name in PASV replies behind NAT.")
]
PassivePortsOption = Annotated[
    str | None, typer.Option("--passive-ports", metavar="FIRST-LAST", help="Ports for data connections.")
]
CongestionControlOption = Annotated[
    str,
    typer.Option(
        "--congestion-control",
        metavar="auto|bbr|cubic|reno|system",
        help="Congestion control of what is sent.",
    ),
]
SessionsOption = Annotated[
    int | None,
    typer.Option("--sessions", metavar="N", min=1, help="Sessions at once (default: what open files carry)."),
]
DscpOption = Annotated[
    int, typer.Option("--dscp", metavar="N", min=0, max=63, help="DSCP of control and data; 1 is lower effort.")
]


def _listed(transports: str | None) -> dict[str, tuple[str, ...]]:
    """Return the transports to serve as a keyword argument, if they were given."""
    if transports is None:
        return {}
    return {"transports": tuple(name.strip() for name in transports.split(",") if name.strip())}


def passive_range(text: str | None) -> tuple[int, int] | None:
    """Parse `FIRST-LAST` as two ports.

    Raises:
        ConfigInvalid: The text has another form.
    """
    if text is None:
        return None
    first, dash, last = text.partition("-")
    if not (dash and first.isdecimal() and last.isdecimal()):
        raise ConfigInvalid(
            f"--passive-ports: expected FIRST-LAST such as 50000-50100, found {text!r}",
            hint="Give the first and the last port of a range that firewalls let through, 1024 to 65535",
        )
    return int(first), int(last)


def _options(
    server_address: AddressOption = None,
    ftp_port: PortOption = None,
    http_port: HttpPortOption = None,
    https_port: HttpsPortOption = None,
    ssh_port: SshPortOption = None,
    certificate: CertificateOption = None,
    key: KeyOption = None,
    depot: DepotOption = None,
) -> None:
    """Declare the options."""


SERVER_PARAMETERS = {
    "server_address": "--address and --port are",
    "ftp_port": "--address and --port are",
    "http_port": "--http-port is",
    "https_port": "--https-port is",
    "ssh_port": "--ssh-port is",
    "certificate": "--certificate is",
    "key": "--key is",
    "transport": "--transport is",
    "depot": "--depot is",
}
"""Options about our server by parameter name, as the start of an error message."""


def server_options(verb: Callable[..., None]) -> Callable[..., None]:
    """Add the options about our server to a verb, passed together as its argument `server`, a ServerPlace."""
    shared = inspect.signature(_options, eval_str=True).parameters
    return carried(verb, "server", shared, lambda given, _own: _place(given))


def _place(given: dict[str, Any]) -> ServerPlace:
    return ServerPlace(
        address=given["server_address"],
        port=given["ftp_port"],
        other_ports=_other_ports(given),
        certificate=given["certificate"],
        key=given["key"],
        depot=given["depot"] or AUTO,
    )


def _other_ports(given: dict[str, Any]) -> dict[str, int]:
    others = {name.removesuffix("_port"): given[name] for name in ("http_port", "https_port", "ssh_port")}
    return {name: port for name, port in others.items() if port is not None}


def _listening(
    transports: TransportsOption = None,
    listen: ListenOption = "0.0.0.0",  # noqa: S104
    port: PortOption = None,
    http_port: HttpPortOption = None,
    https_port: HttpsPortOption = None,
    ssh_port: SshPortOption = None,
    certificate: CertificateOption = None,
    key: KeyOption = None,
    masquerade: MasqueradeOption = None,
    passive_ports: PassivePortsOption = None,
    congestion_control: CongestionControlOption = "auto",
    sessions: SessionsOption = None,
    dscp: DscpOption = 0,
) -> None:
    """Declare the options of a standalone server."""


def listening_options(verb: Callable[..., None]) -> Callable[..., None]:
    """Add the options of a standalone server to a verb, passed as `listening`, the arguments of a `Listening`."""
    shared = inspect.signature(_listening, eval_str=True).parameters
    return carried(verb, "listening", shared, lambda given, _own: _listening_arguments(given))


def _listening_arguments(given: dict[str, Any]) -> dict[str, Any]:
    same = ("listen", "port", "certificate", "key", "masquerade", "congestion_control", "sessions", "dscp")
    return {
        **{name: given[name] for name in same},
        **_listed(given["transports"]),
        "other_ports": _other_ports(given),
        "passive_ports": passive_range(given["passive_ports"]),
    }
