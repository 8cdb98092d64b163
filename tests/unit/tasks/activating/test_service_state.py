"""What a device does for its network: read from tables of real devices, and what a second look lacks."""

from __future__ import annotations

import pytest

from flashferry.core.values import replace
from tasks.activating.service_state import (
    ServiceState,
    interfaces_up,
    neighbors_in,
    read_service_state,
    routes,
    uptime_s,
)
from tasks.software_state import Answer, Outcome

# Shapes of the Cisco IOS command references.
OSPF = """\
Neighbor ID     Pri   State           Dead Time   Address         Interface
192.0.2.11        1   FULL/DR         00:00:37    192.0.2.18      GigabitEthernet1
192.0.2.12        1   EXSTART/BDR     00:00:37    192.0.2.19      GigabitEthernet2
"""
BGP = """\
BGP router identifier 192.0.2.70, local AS number 65550
BGP table version is 9, main routing table version 9

Neighbor        V           AS MsgRcvd MsgSent   TblVer  InQ OutQ Up/Down  State/PfxRcd
192.0.2.77      4        65551    6965    1766        9    0    0 5w4d           1
192.0.2.78      4        65552    6965    1766        9    0    0 5w4d        Idle
"""
EIGRP = """\
EIGRP-IPv4 Neighbors for AS(10)
H   Address                 Interface              Hold Uptime   SRTT   RTO  Q  Seq
                                                   (sec)         (ms)       Cnt Num
0   192.0.2.2               Gi1                      13 00:00:03 1996  5000  0  5
"""
ROUTES = """\
IP routing table name is default (0x0)
IP routing table maximum-paths is 32
Route Source    Networks    Subnets     Replicates  Overhead    Memory (bytes)
connected       0           3           0           288         912
bgp 65550       100         20          0           11520       36480
internal        1                                               372
Total           101         23          0           11808       37764
"""
BRIEF = """\
Interface              IP-Address      OK? Method Status                Protocol
GigabitEthernet1       192.0.2.1       YES NVRAM  up                    up
GigabitEthernet2       unassigned      YES unset  administratively down down
GigabitEthernet3       unassigned      YES unset  up                    down
"""
BEFORE = ServiceState(
    release="16.6.5",
    interfaces_up=("Gi1", "Gi2"),
    neighbors=("bgp 192.0.2.77", "cdp sw1 on Gig 1"),
    routes=100,
    members=(1, 2),
    standby_hot=True,
)


def read(text):
    return Answer(command="x", outcome=Outcome.READ, text=text)


def test_neighbours_count_where_they_are_there():
    """One that is coming up, or down, is none; what the device does not speak has none."""
    assert neighbors_in("ospf", read(OSPF)) == ("192.0.2.11 on GigabitEthernet1",)
    assert neighbors_in("bgp", read(BGP)) == ("192.0.2.77",)
    assert neighbors_in("eigrp", read(EIGRP)) == ("192.0.2.2 on Gi1",)
    assert neighbors_in("bgp", read("% BGP not active\n")) == ()
    assert neighbors_in("cdp", read("% CDP is not enabled\n")) == ()
    assert neighbors_in("bgp", Answer(command="x", outcome=Outcome.NOT_THERE)) == ()


def test_routes_are_counted_and_ports_are_up_with_their_protocol():
    """The total of both columns; a port without its protocol carries nothing."""
    assert routes(read(ROUTES)) == 124
    assert routes(read("nothing")) is None
    assert interfaces_up(read(BRIEF)) == ("GigabitEthernet1",)


def test_an_uptime_is_told_to_the_minute():
    """From the parts that ntc-templates reads; without one it is not known."""
    parts = {"uptime": "1 week, 2 days", "uptime_weeks": "1", "uptime_days": "2", "uptime_hours": ""}
    assert uptime_s(parts) == 9 * 86_400
    assert uptime_s({"uptime": ""}) is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"interfaces_up": ("Gi1",)}, "1 interface of 2 not up again: Gi2"),
        ({"neighbors": ("cdp sw1 on Gig 1",)}, "1 neighbour of 2 not up again: bgp 192.0.2.77"),
        ({"routes": 89}, "89 routes, there were 100"),
        ({"routes": None}, "0 routes, there were 100"),
        ({"members": (1,)}, "members not ready: 2"),
        ({"standby_hot": False}, "the other supervisor was hot, and is not"),
    ],
)
def test_what_is_lacking_is_named(change, words):
    """Each in a sentence with what was there."""
    assert replace(BEFORE, **change).lacks(BEFORE) == (words,)


def test_what_is_there_again_or_new_lacks_nothing():
    """Routing tables breathe, and a new neighbour is no loss."""
    more = replace(BEFORE, routes=95, neighbors=(*BEFORE.neighbors, "ospf 192.0.2.9 on Gi1"), release="17.9.4")
    assert more.lacks(BEFORE) == ()


def test_a_restart_is_told_by_what_the_device_prints():
    """Its time of start, its reason, an uptime that went down; without any of them nobody knows."""
    assert replace(BEFORE, restarted_at="b").has_restarted_since(replace(BEFORE, restarted_at="a")) is True
    assert replace(BEFORE, restarted_at="a").has_restarted_since(replace(BEFORE, restarted_at="a")) is False
    assert replace(BEFORE, reload_reason="Image Install").has_restarted_since(BEFORE) is True
    assert replace(BEFORE, uptime_s=60).has_restarted_since(replace(BEFORE, uptime_s=3600)) is True
    assert BEFORE.has_restarted_since(BEFORE) is None


def test_a_device_that_refuses_all_of_it_is_read_all_the_same(table_device):
    """A caret to each command is nothing to be compared, and no error."""
    version = "Cisco IOS XE Software, Version 16.06.05\nr1 uptime is 3 hours, 4 minutes\n"
    found = read_service_state(table_device({"show version": version}))
    assert (found.interfaces_up, found.neighbors, found.routes) == ((), (), None)
