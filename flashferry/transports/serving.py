"""What a server by itself serves: whether it can, and the addresses for devices."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

from flashferry.core.errors import ConfigInvalid
from flashferry.fileserver import ListenerSettings, SenderProfile, SettingsInvalid
from flashferry.transports import TRANSPORTS, USUAL
from flashferry.transports.choice import wish_of
from flashferry.transports.https import HTTPS
from flashferry.transports.listening import listeners_at, port_notice
from flashferry.transports.transport import ANY_ADDRESS, ListenOptions, Transport
from inventory.transport_policy import AS_USUAL


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening:
    """How a server that runs by itself listens and sends: `flashferry serve` and the depot.

    Attributes:
        transports: By what it serves, by their names; the first comes first.
        port: Port of the usual transport, 0 to 65535, or None: 21 where that is allowed and free, else the first free
            one from 2121 on.
        other_ports: Ports of the others, by `Transport.listener_name`; one that is not named is found likewise.
        certificate: File of our certificate, for a transport that shows one, or None.
        key: File of its private key, or None.
        masquerade: Address to name in PASV replies behind NAT, or None.
        passive_ports: First and last port of data connections, or None: the kernel chooses.
        congestion_control: `auto`, `bbr`, `cubic`, `reno` or `system`.
        dscp: DSCP of control and data, 0 to 63; 1 is lower effort.
        sessions: Sessions at once, from 1, or None: what open files carry.

    Raises:
        ConfigInvalid: A transport is unknown or lacks what it needs; or a port or a certificate is given for what is
            not served.
    """

    transports: tuple[str, ...] = (USUAL.name,)
    listen: str = ANY_ADDRESS
    port: int | None = None
    other_ports: Mapping[str, int] = field(default_factory=dict)
    certificate: Path | None = None
    key: Path | None = None
    masquerade: str | None = None
    passive_ports: tuple[int, int] | None = None
    congestion_control: str = "auto"
    dscp: int = 0
    sessions: int | None = None

    def __post_init__(self) -> None:
        """Check that no two options contradict each other."""
        check_served(self.served, ports=self.other_ports, port=self.port, certificate=self.certificate, key=self.key)

    @property
    def served(self) -> tuple[Transport, ...]:
        """Return the transports that it serves, each once."""
        known = {one.name: one for one in TRANSPORTS}
        if (unknown := next((name for name in self.transports if name not in known), None)) is not None:
            *others, last = known
            raise ConfigInvalid(
                f"--transports: expected {', '.join(others)} or {last}, found {unknown!r}",
                hint="Give one of these words, or several with commas between them",
            )
        return tuple(known[name] for name in dict.fromkeys(self.transports))

    @property
    def profile(self) -> SenderProfile:
        """Return how it sends."""
        return SenderProfile(congestion_control=self.congestion_control, dscp=self.dscp)

    def listeners(self, host_keys: Path) -> tuple[ListenerSettings, ...]:
        """Return what its file server needs to listen.

        Raises:
            ConfigInvalid: A protocol needs what the options do not have.
            SettingsInvalid: An option is out of its range.
        """
        where = ListenOptions(
            address=self.listen,
            passive_ports=self.passive_ports,
            masquerade_address=self.masquerade,
            certificate=self.certificate,
            key=self.key,
            host_keys=host_keys,
        )
        return listeners_at(self.served, where, ports={USUAL.listener_name: self.port, **self.other_ports})

    def port_notices(self, port_of: Callable[[str], int]) -> tuple[str, ...]:
        """Return the messages about ports that were found by default."""
        given = {*self.other_ports} | (set() if self.port is None else {USUAL.listener_name})
        found = {one.listener_name: one for one in reversed(self.served) if one.listener_name not in given}
        notices = (port_notice(port_of(one.name), one) for one in found.values())
        return tuple(notice for notice in notices if notice is not None)


def check_served(
    transports: tuple[Transport, ...],
    *,
    port: int | None,
    ports: Mapping[str, int],
    certificate: Path | None,
    key: Path | None,
) -> None:
    """Check that our side can serve some transports with what is given.

    Raises:
        ConfigInvalid: There is none to serve, one lacks what it needs, or something is given for one that is not
            served.
    """
    if not transports:
        raise ConfigInvalid("--transports: expected at least one, found none", hint=f"Give {USUAL.name}, for example")
    missing = wish_of(AS_USUAL, certificate=certificate, key=key).missing
    for one in transports:
        if one.name in missing:
            why, hint = missing[one.name]
            raise ConfigInvalid(f"{one.name}: {why}", hint=hint)
    listeners = {one.listener_name for one in transports}
    spoken: dict[str, str] = {}
    for one in TRANSPORTS:
        before = spoken.get(one.listener_name)
        spoken[one.listener_name] = one.name if before is None else f"{before} or {one.name}"
    given = {name: f"--{name}-port" for name in ports} | ({} if port is None else {USUAL.listener_name: "--port"})
    if certificate is not None:
        given.setdefault(HTTPS.listener_name, "--certificate")
    for name, option in given.items():
        if name not in listeners:
            raise ConfigInvalid(
                f"{option}: expected {spoken[name]} among the transports served, found "
                f"{', '.join(one.name for one in transports)}",
                hint=f"Leave it out, or serve {spoken[name]} too (--transports)",
            )


def is_certified(transport: Transport) -> bool:
    """Return whether a transport shows our certificate."""
    return transport.name == HTTPS.name


def check_files(certificate: Path, key: Path, *, told: tuple[str, ...] = ()) -> None:
    """Check our certificate and its key, before any device is served.

    `told` are the addresses or names for devices, as far as they are known: it is to have each of them.

    Raises:
        ConfigInvalid: They cannot be used: another's key, one that others can read, expired, or for another name.
    """
    # Late: who serves no HTTPS waits for no library of certificates to be imported.
    try:
        import_module("flashferry.httpserver").check_certificate(certificate, key, told=told)
    except SettingsInvalid as error:
        raise ConfigInvalid(error.message, hint=error.hint) from None


def certified(
    transport: Transport, addresses: tuple[str, ...], certificate: Path | None, key: Path | None
) -> tuple[str, ...]:
    """Return those of our addresses that fit a transport: with TLS, names of the certificate.

    Raises:
        ConfigInvalid: The certificate is for none of them, or cannot be used at all.
    """
    if transport.name != HTTPS.name or certificate is None or key is None:
        return addresses
    # Late: who serves no HTTPS waits for no library of certificates to be imported.
    check = import_module("flashferry.httpserver").check_certificate
    fitting: list[str] = []
    complaint: SettingsInvalid | None = None
    for address in addresses:
        try:
            check(certificate, key, told=(address,))
        except SettingsInvalid as error:
            complaint = error
        else:
            fitting.append(address)
    if complaint is not None and not fitting:
        raise ConfigInvalid(complaint.message, hint=complaint.hint)
    return tuple(fitting)
