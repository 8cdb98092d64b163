"""A packet capture is found wherever a version of the controller keeps it."""

from __future__ import annotations

import json

import httpx
import pytest

from flashferry.nightly.cml.backend import start_capture, stop_capture
from flashferry.nightly.night import NightFault
from tests.unit.nightly.cml.scripted import LAB, Scripted, controller, error

PCAP = b"\xd4\xc3\xb2\xa1" + bytes(20)
CAPTURE = f"labs/{LAB}/links/l-1/capture"


def test_it_begins_with_an_end():
    """Controllers want one of packets and seconds; both are given."""
    script = Scripted({f"PUT {CAPTURE}/start": {"config": {}}})
    start_capture(controller(script), LAB, "l-1", most_packets=5_000_000)
    assert json.loads(script.requests[0].content) == {"encap": "ethernet", "maxpackets": 1_000_000, "maxtime": 900}


@pytest.mark.parametrize(
    ("version", "path"),
    [("2.9.1", "k-7"), ("2.10.0", "l-1"), ("2.9.1", "l-1"), ("2.8.0", "k-7")],
    ids=["2.9", "2.10", "2.9 without a key", "2.8"],
)
def test_it_is_fetched_from_where_it_is_kept(version, path):
    """Up to 2.9 under a key of its own; Cisco's client asks for a path that no controller has."""
    script = Scripted(
        {f"PUT {CAPTURE}/stop": httpx.Response(204), f"GET pcap/{path}": httpx.Response(200, content=PCAP)}
    )
    script.on(f"GET {CAPTURE}/key", "k-7")
    assert stop_capture(controller(script, version=version), LAB, "l-1") == PCAP
    assert script.asked[-1] == f"GET pcap/{path}"


def test_one_that_ended_by_itself_is_fetched_too():
    """The order to end it is refused then, which is no error."""
    script = Scripted(
        {f"PUT {CAPTURE}/stop": error(400, "No capture"), "GET pcap/l-1": httpx.Response(200, content=PCAP)}
    )
    assert stop_capture(controller(script, version="2.10.0"), LAB, "l-1") == PCAP


def test_one_that_is_nowhere_is_told():
    """With where to look."""
    with pytest.raises(NightFault, match="not to be found"):
        stop_capture(controller(Scripted({f"PUT {CAPTURE}/stop": httpx.Response(204)})), LAB, "l-1")
