"""What every transport keeps to, and the copy command as a device takes it."""

from __future__ import annotations

import pytest

from flashferry.core.errors import ConfigInvalid
from flashferry.core.values import replace
from flashferry.devices.platforms import PLATFORMS
from flashferry.devices.platforms.ios import IOS_XE
from flashferry.fileserver import Ticket
from flashferry.transports import TRANSPORTS, USUAL, transport_named
from flashferry.transports.transport import FailureCause, Offer, Transport, copy_command, offer_of, shown_command
from tasks.tcp_config import is_ours_to_type, plan_tune, tcp_lines

OFFER = Offer(transport=USUAL, server="192.0.2.10", port=21, image="x.bin", username="u", password="p")

each_transport = pytest.mark.parametrize("transport", TRANSPORTS, ids=lambda one: one.name)


@each_transport
def test_a_transport_is_found_by_its_name(transport: Transport):
    """Also by the first that is meant where nobody asks for another."""
    assert transport_named(transport.name) is transport
    assert USUAL is TRANSPORTS[0]


def test_a_transport_that_there_is_not():
    """All that there are, are told."""
    with pytest.raises(ConfigInvalid, match=r"transport: expected .*, found 'gopher'"):
        transport_named("gopher")


@each_transport
def test_what_it_sets_is_read_again_and_may_be_typed(transport: Transport):
    """On every platform: a line that could not be found again could not be proven gone."""
    for platform in PLATFORMS:
        plan = plan_tune(
            tcp_lines("", platform),
            platform=platform,
            transport=transport,
            window_bytes=None,
            source_interface="GigabitEthernet0/0/0",
        )
        shown = tcp_lines("\n".join(plan.commands), platform)
        assert [shown.of(one.keyword) for one in plan.changes] == list(plan.commands)
        assert all(map(is_ours_to_type, plan.changes))


@each_transport
def test_a_keyword_is_one_settings(transport: Transport):
    """A journal knows a setting by its keyword alone; what protocols share is one setting."""
    known = {*transport.settings, *PLATFORMS[0].tcp.all, *(one for other in TRANSPORTS for one in other.settings)}
    assert len({one.keyword for one in known}) == len({one.command for one in known}) == len(known)


@each_transport
def test_each_way_to_fail_has_words(transport: Transport):
    """A failure without a hint helps nobody."""
    assert set(transport.words.hints) == set(FailureCause)
    assert set(transport.words.stuck) >= {FailureCause.NO_CLIENT, FailureCause.NO_LOGIN, FailureCause.NO_DATA}


@each_transport
def test_credentials_stand_in_the_url_alone(transport: Transport):
    """Neither the offer's words nor the command for people hold them."""
    ticket = Ticket(ticket_id="t1", username="q7Zk2mXw", password="Gf4tR9bLs0Vn8cJd", image_name="x.bin")
    offer = offer_of(transport, ticket, server="192.0.2.10", port=transport.ports.well_known)
    shown = shown_command(offer, "flash:x", IOS_XE)
    assert transport.url(offer).startswith(f"{transport.name}://")
    for secret in (ticket.username, ticket.password):
        assert secret not in repr(offer) + shown


@pytest.mark.parametrize("changes", [{"vrf": "A\nreload"}, {"server": "192.0.2.1 x"}, {"vrf": "a b"}])
def test_an_address_or_vrf_of_more_than_a_word_is_refused(changes):
    """A line break in either would be a command of its own."""
    with pytest.raises(ConfigInvalid, match="letters, digits"):
        command(**changes)


def command(**changes: object) -> str:
    return copy_command(replace(OFFER, **changes), "flash:x", IOS_XE)


def test_the_command_as_ios_takes_it():
    """Port 21 is left out of the URL; the VRF stands behind the target."""
    assert command() == "copy ftp://u:p@192.0.2.10/x.bin flash:x"
    assert command(port=2121, vrf="Mgmt-vrf") == "copy ftp://u:p@192.0.2.10:2121/x.bin flash:x vrf Mgmt-vrf"


@pytest.mark.parametrize(
    "image", ["a b.bin", "a?.bin", "a%20.bin", "a@b.bin", "a|b.bin", "a:b.bin", "-a.bin", "a\nb.bin", ""]
)
def test_a_name_that_ios_cannot_take_is_refused(image):
    """A blank ends the URL, `?` calls help, `%xy` is forbidden, `@` ends the credentials, `|` filters."""
    with pytest.raises(ConfigInvalid, match="Rename the file"):
        command(image=image)


def test_a_command_longer_than_an_ios_line_is_refused():
    """At 253 characters it is taken, at 254 it is not, and the figure is told."""
    longest = IOS_XE.copying.longest_command
    spare = longest - len(command(image="x")) + 1
    assert len(command(image="x" * spare)) == longest
    with pytest.raises(ConfigInvalid, match="254 characters"):
        command(image="x" * (spare + 1))
