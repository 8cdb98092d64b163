"""Trustpoints as configuration, and certificates read from a TLS handshake that is under way."""

import ssl
import struct
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashferry.lab.authority import Authority
from flashferry.lab.errors import LabError
from flashferry.lab.standin.http_client import certificates_in
from flashferry.lab.standin.trustpoints import trusted, trustpoint_lines, validity_of

FIRST = Authority("First CA")


def der_of(authority: Authority) -> bytes:
    return ssl.PEM_cert_to_DER_cert(authority.pem)


def test_what_is_configured_is_trusted(make_console: Callable[..., Any]) -> None:
    """Two authorities, in the order of the configuration; the very certificates come back from the text."""
    second = Authority("Second CA")
    device = make_console(trustpoints=(("ONE", FIRST.pem), ("TWO", second.pem))).device
    assert trusted(device.running) == (der_of(FIRST), der_of(second))
    device.save("ferry")
    device.boot()
    assert trusted(device.running) == (der_of(FIRST), der_of(second))


def test_a_trustpoint_takes_its_certificates_with_it(make_console: Callable[..., Any]) -> None:
    """Without its trustpoint a chain counts for nothing; one that was spoiled counts for nothing either."""
    console = make_console(trustpoints=(("ONE", FIRST.pem),))
    console.type("configure terminal", "no crypto pki trustpoint ONE")
    assert trusted(console.device.running) == ()
    console.type("configure terminal", "crypto pki trustpoint ONE", "enrollment terminal")
    assert trusted(console.device.running) == (der_of(FIRST),)
    chain = console.device.running.find("crypto pki certificate chain ONE")
    chain.children[1].text = " 00" + chain.children[1].text[3:]
    assert trusted(console.device.running) == ()


def test_a_device_trusts_nobody_by_itself(make_console: Callable[..., Any]) -> None:
    """And its stock configuration does not speak of it."""
    device = make_console().device
    assert trusted(device.running) == ()
    assert "crypto" not in device.running_text()


@pytest.mark.parametrize(("name", "pem"), [("a b", FIRST.pem), ("", FIRST.pem), ("CA", "no certificate"), ("CA", "")])
def test_what_is_no_trustpoint_is_refused(name: str, pem: str) -> None:
    """By its name, and what was expected."""
    with pytest.raises(LabError, match="expected"):
        trustpoint_lines(name, pem)


def test_a_validity_ends_with_its_last_second() -> None:
    """Both ends belong to it."""
    validity = validity_of(der_of(FIRST))
    second = timedelta(seconds=1)
    held = [
        validity.holds(at) for at in (validity.begins - second, validity.begins, validity.ends, validity.ends + second)
    ]
    assert held == [False, True, True, False]


def record(payload: bytes, kind: int = 22) -> bytes:
    return struct.pack("!BHH", kind, 0x0303, len(payload)) + payload


def message(kind: int, body: bytes) -> bytes:
    return bytes((kind,)) + len(body).to_bytes(3, "big") + body


def listed(*certificates: bytes) -> bytes:
    body = b"".join(len(each).to_bytes(3, "big") + each for each in certificates)
    return len(body).to_bytes(3, "big") + body


FLIGHT = message(2, b"hello of the server") + message(11, listed(b"leaf", b"between")) + message(14, b"")


@pytest.mark.parametrize("piece", [1, 7, 30, 1000])
def test_certificates_are_found_however_they_are_cut(piece: int) -> None:
    """Messages over several records, records over several reads."""
    records = b"".join(record(FLIGHT[at : at + piece]) for at in range(0, len(FLIGHT), piece))
    assert certificates_in(records) == (b"leaf", b"between")


def test_what_has_not_come_is_waited_for() -> None:
    """Up to the last byte of the message, nothing is found; alerts and plain text have none."""
    whole = record(message(11, listed(b"leaf")))
    assert [certificates_in(whole[:at]) for at in range(len(whole))] == [None] * len(whole)
    assert certificates_in(record(b"\2\50", kind=21)) is None
    assert certificates_in(b"HTTP/1.1 400 Bad Request\r\n\r\n") is None


@given(st.binary(max_size=200))
def test_no_bytes_confuse_the_reader(garbage: bytes) -> None:
    """Whatever a server sends, there is an answer."""
    found = certificates_in(record(garbage))
    assert found is None or all(isinstance(each, bytes) for each in found)
