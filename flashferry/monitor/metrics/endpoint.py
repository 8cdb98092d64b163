"""A small HTTP server for metrics during a run, on loopback by default."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address

from prometheus_client import CollectorRegistry, start_http_server

from flashferry.core.errors import ConfigInvalid

LOOPBACK = "127.0.0.1"


def parsed_address(text: str) -> tuple[str, int]:
    """Parse `[ADDRESS:]PORT`; an IPv6 address is in brackets.

    Raises:
        ConfigInvalid: It is invalid.
    """
    address, _, port = text.rpartition(":")
    address = address.removeprefix("[").removesuffix("]") or LOOPBACK
    try:
        ip_address(address)
        number = int(port) if port.isascii() and port.isdecimal() else 0
    except ValueError:
        number = 0
    if not 1 <= number <= 65_535:
        raise ConfigInvalid(
            f"--metrics {text!r}: expected [ADDRESS:]PORT with a port from 1 to 65535",
            hint="For example --metrics 9912, or --metrics 192.0.2.1:9912 to be reached from other hosts",
        )
    return address, number


@contextmanager
def endpoint(registry: CollectorRegistry, target: str) -> Iterator[None]:
    """Serve metrics while the block runs.

    Args:
        registry: The metrics.
        target: `[ADDRESS:]PORT`.

    Raises:
        ConfigInvalid: The target is invalid, or cannot be bound.
    """
    address, port = parsed_address(target)
    try:
        server, thread = start_http_server(port, address, registry)
    except OSError as error:
        raise ConfigInvalid(
            f"--metrics {target}: cannot listen on {address} port {port}: {error.strerror}",
            hint="Choose another port; another run may hold this one",
        ) from None
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
