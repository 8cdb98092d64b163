"""Where data connections come about: what PORT and EPRT say, and which passive port is next. No sockets in here.

Facts
-----

- PORT carries six decimal numbers of 0 to 255, address first, high byte of the port before the low one (RFC 959 5.3.2).
- EPRT carries protocol, address and port between four equal delimiters, any ASCII character from 33 to 126; protocol 1
  is IPv4 and 2 is IPv6, and one that the server cannot use is answered 522 (RFC 2428 2).
"""

import ipaddress
import math
import secrets
from collections.abc import Iterator
from dataclasses import dataclass

IPV4, IPV6 = 1, 2

_LOWEST_PORT = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class DataPlace:
    """An address and a port."""

    address: ipaddress.IPv4Address | ipaddress.IPv6Address
    port: int

    def refusal(self, client: ipaddress.IPv4Address | ipaddress.IPv6Address) -> str:
        """Return in words why a client is not called there; empty if it is (RFC 2577 3: no bounce).

        Some name no address at all (`::`), for they listen on all of theirs: the one they came from serves.
        """
        if self.address != client and not self.address.is_unspecified:
            return "Expected your own address."
        return "" if self.port >= _LOWEST_PORT else f"Expected a port from {_LOWEST_PORT}."


class ProtocolUnsupported(ValueError):
    """EPRT names a network protocol that this session does not run over."""


def parse_port(text: str) -> DataPlace:
    """Read the argument of PORT.

    Raises:
        ValueError: It is not of that form.
    """
    numbers = [_number(word) for word in text.split(",")]
    if len(numbers) != 6 or max(numbers) > 255:
        raise ValueError("expected six numbers of 0 to 255")
    return DataPlace(address=ipaddress.IPv4Address(bytes(numbers[:4])), port=numbers[4] * 256 + numbers[5])


def parse_eprt(text: str, version: int) -> DataPlace:
    """Read the argument of EPRT.

    Args:
        text: The argument.
        version: The IP version that the client is connected by, 4 or 6.

    Raises:
        ProtocolUnsupported: It names the other one.
        ValueError: It is not of that form.
    """
    delimiter = text[:1]
    if not delimiter or not 33 <= ord(delimiter) <= 126:
        raise ValueError("expected a delimiter")
    before, protocol, address, port, after = text.split(delimiter)
    if before or after:
        raise ValueError("expected four delimiters")
    if _number(protocol) != protocol_of(version):
        raise ProtocolUnsupported(f"expected protocol {protocol_of(version)}")
    place = DataPlace(address=ipaddress.ip_address(address), port=_number(port))
    if place.address.version != version or place.port > 65535:
        raise ValueError("expected an address of that protocol and a port")
    return place


def protocol_of(version: int) -> int:
    """Return the number of an IP version in EPRT and EPSV."""
    return IPV4 if version == 4 else IPV6


def ports_in_random_order(first: int, last: int) -> Iterator[int]:
    """Yield each port of a range once; drawing the order of sixty thousand beforehand would take 18 ms."""
    count = last - first + 1
    at, step = secrets.randbelow(count), 1 + secrets.randbelow(count)
    # A step that has no factor in common with the number of ports comes by all of them.
    while math.gcd(step, count) != 1:
        step = 1 + secrets.randbelow(count)
    for _ in range(count):
        yield first + at
        at = (at + step) % count


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 5):
        raise ValueError("expected a number")
    return int(text)
