"""Whether a device can fetch by a protocol at all, by what it shows."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from flashferry.devices.platforms.ios import IOS_XE
from flashferry.transports import TRANSPORTS, transport_named
from tasks.fetch_check import network_protocols, protocols_refusal, trust_refusal, trusting, trustpoints

CONFIGURATION = """crypto pki trustpoint TP-self-signed-1234567890
crypto pki trustpoint SLA-TrustPoint
crypto pki certificate chain TP-self-signed-1234567890
"""
ROWS = """File Systems:

       Size(b)       Free(b)      Type  Flags  Prefixes
             -             -    opaque     rw   system:
*   1940303872    1036210176      disk     rw   bootflash: flash:
"""


def listed(*names: str) -> str:
    return ROWS + "".join(f"             -             -   network     rw   {name}:\n" for name in names)


def test_trustpoints_that_may_vouch_for_us():
    """The device's own and that of the licensing service, which are in every configuration, vouch for nobody else."""
    assert trustpoints(CONFIGURATION) == ()
    assert trustpoints(f"{CONFIGURATION}crypto pki trustpoint Company-CA\n") == ("Company-CA",)


@pytest.mark.parametrize("transport", TRANSPORTS, ids=lambda one: one.name)
def test_only_https_needs_trust(transport):
    """Without a trustpoint it is refused before anything is touched; where nobody looked nobody knows."""
    told = trust_refusal(transport, ())
    assert (told is not None) == (transport.name == "https")
    assert trust_refusal(transport, ("Company-CA",)) is None
    assert trust_refusal(transport, None) is None


def test_a_device_that_can_do_nothing_but_tftp_is_told_so():
    """By what it lists; one that lists no protocol, or was not asked, says nothing."""
    systems = IOS_XE.file_systems
    wanted = [transport_named("http"), transport_named("scp")]
    assert network_protocols(listed("tftp", "rcp"), systems) == ("tftp", "rcp")
    told = protocols_refusal(network_protocols(listed("tftp", "rcp"), systems), wanted)
    assert told is not None
    assert told.startswith("expected HTTP or SCP among the device's file systems, found tftp:, rcp: only")
    assert "TFTP is no transport of ours" in told
    assert protocols_refusal(network_protocols(listed("tftp", "scp"), systems), wanted) is None
    assert protocols_refusal((), wanted) is None
    assert network_protocols(ROWS, systems) == ()


def test_what_would_be_refused_for_want_of_a_trustpoint_has_no_ceiling():
    """How fast it could be is no news then; where nobody looked it stands."""
    found = tuple(SimpleNamespace(transport=name) for name in ("scp", "https"))
    assert [one.transport for one in trusting(found, ())] == ["scp"]
    assert trusting(found, ("Company-CA",)) == trusting(found, None) == found
