"""Where the devices of a site tell each other where they stand: who waits, who is woken, who takes part at all."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any, cast

import pytest
from nornir.core.inventory import Host

from flashferry.devices.errors import Interrupted
from flashferry.run.neighbours.board import IDLE_S, Neighbourhood, ServedBy, SiteBoard, may_serve, objection
from flashferry.run.neighbours.neighbour_copy import is_needed
from inventory.host_view import HostView
from tests.patience import PATIENCE_S

NAMES = ("r1", "r2", "r3")


def host(name: str, **more: Any) -> HostView:
    values: dict[str, Any] = {
        "name": name,
        "address": "192.0.2.1",
        "port": 22,
        "platform": "ios",
        "site": "branch",
        "link_rate_bps": None,
        "cap_share": 0.8,
        "server_address": None,
        "vrf": None,
        "neighbours": True,
    }
    return HostView(**values | more)


def source(board: SiteBoard, name: str, **more: Any) -> ServedBy | None:
    given: dict[str, Any] = {
        "address": f"10.0.0.{name[1:]}",
        "can_serve": True,
        "interrupted": lambda: False,
        "patience_s": 60.0,
        "on_wait": lambda _: None,
        "on_patience": lambda: None,
    }
    return board.source_for(name, **given | more)


def test_a_child_is_sent_to_its_parent_once_it_is_let_in():
    """Not before: its first packet would be refused."""
    board = SiteBoard(NAMES)
    for name in NAMES:
        board.enter(name)
    assert source(board, "r1") is None
    waits = threading.Event()
    with ThreadPoolExecutor() as pool:
        child = pool.submit(source, board, "r2", on_wait=lambda _: waits.set())
        assert waits.wait(PATIENCE_S)
        board.prove("r1", "10.0.0.1", wan_s=12.0)
        children = board.to_admit("r1")
        assert (children, child.done()) == ({"r2": "10.0.0.2"}, False)
        board.admitted("r1", children)
        assert child.result(PATIENCE_S) == ServedBy(host="r1", address="10.0.0.1")
    assert board.wan_s == 12.0


def test_a_child_whose_parent_ends_before_it_sees_that_it_was_let_in_goes_on():
    """It may be logging out at that moment; nobody would wake it again, nor take the WAN for it."""
    board = SiteBoard(NAMES)
    board.enter("r1")
    board.enter("r2")
    assert source(board, "r1") is None

    def parent_comes_and_goes() -> None:
        board.prove("r1", "10.0.0.1")
        board.admitted("r1", board.to_admit("r1"))
        board.end("r1")

    looks = iter(range(20))
    found = source(
        board, "r2", patience_s=0.0, on_patience=parent_comes_and_goes, interrupted=lambda: next(looks, None) is None
    )
    assert found is None


def test_who_is_not_wanted_when_it_is_found_with_the_image_keeps_nobody_waiting():
    """What it does next (`--add`) may take long: who comes meanwhile takes the WAN, or another."""
    board = SiteBoard(NAMES)
    board.enter("r1")
    context = SimpleNamespace(board=board)
    session = SimpleNamespace(peer_address="10.0.0.1")
    assert not is_needed(cast("Any", SimpleNamespace(context=context, host=host("r1"), session=lambda: session)))
    board.enter("r2")
    stops = iter(range(3))
    assert source(board, "r2", interrupted=lambda: next(stops, None) is None) is None


def test_who_went_to_another_parent_meanwhile_was_not_let_in_there():
    """A parent that is slow to log in again lets in whom it was to let in a while ago."""
    board = SiteBoard((*NAMES, "r4"), degree=1)
    for name in (*NAMES, "r4"):
        board.enter(name)
    assert source(board, "r1") is None
    with ThreadPoolExecutor() as pool:
        over = threading.Event()
        waits = threading.Event()
        pool.submit(source, board, "r2", on_wait=lambda _: waits.set(), interrupted=over.is_set)
        assert waits.wait(PATIENCE_S)
        board.prove("r1", "10.0.0.1")
        children = board.to_admit("r1")
        board.leave("r2")
        board.enter("r2")
        board.admitted("r1", children)
        over.set()
    assert not board._tree.members["r2"].is_fetching


def test_one_whose_address_cannot_be_told_takes_the_wan():
    """No list could let it in."""
    board = SiteBoard(NAMES)
    for name in NAMES:
        board.enter(name)
    assert source(board, "r1") is None
    assert source(board, "r2", address=None) is None


def test_one_that_waits_can_be_stopped():
    """It says so; nothing was set on it."""
    board = SiteBoard(NAMES)
    board.enter("r1")
    board.enter("r2")
    source(board, "r1")
    with pytest.raises(Interrupted):
        source(board, "r2", interrupted=lambda: True)


def test_one_that_serves_ends_when_nobody_comes_for_long():
    """A device that is looked at for ever does not keep lines of ours on another."""
    now = [0.0]
    board = SiteBoard(NAMES, clock=lambda: now[0])
    board.enter("r1")
    board.enter("r2")
    source(board, "r1")
    board.prove("r1", "10.0.0.1")
    assert board.is_needed("r1")
    now[0] = IDLE_S + 1
    assert not board.is_needed("r1")


def test_one_that_was_logged_out_makes_ready_while_others_are_proven():
    """A login and a check take seconds: they are over by the time that there is a place."""
    board = SiteBoard(NAMES)
    board.enter("r1")
    board.enter("r2")
    assert source(board, "r1") is None
    done: list[str] = []

    def freed() -> None:
        done.append("logged out")
        board.proving("r1")

    def ready() -> None:
        done.append("ready")
        board.prove("r1", "10.0.0.1")
        board.admitted("r1", board.to_admit("r1"))

    found = source(board, "r2", patience_s=0.0, on_patience=freed, on_soon=ready)
    assert (found, done) == (ServedBy(host="r1", address="10.0.0.1"), ["logged out", "ready"])


def test_a_proof_that_takes_long_is_not_near_at_once():
    """By how long the last one took: who makes ready too early is logged out again before its turn."""
    now = [0.0]
    board = SiteBoard(("r1", "r2", "r3", "r4", "r5"), degree=1, clock=lambda: now[0])
    for name in ("r1", "r2", "r3", "r4", "r5"):
        board.enter(name)
        board._wait(name, f"10.0.0.{name[1:]}", can_serve=True)
    board.proving("r1")
    assert board._is_soon("r2")
    now[0] = 100.0
    board.prove("r1", "10.0.0.1")
    board.admitted("r1", {"r2": "10.0.0.2"})
    board.proving("r2")
    assert not board._is_soon("r3")
    now[0] = 160.0
    assert board._is_soon("r3")
    board.leave("r2")
    assert board._is_soon("r3")
    assert not board._is_soon("r4")


def test_a_site_decides_how_many_one_serves():
    """By how many there are."""
    assert SiteBoard(NAMES)._tree.degree == 3
    assert SiteBoard(tuple(f"r{number}" for number in range(20)))._tree.degree == 4


def test_a_helper_is_one_that_did_not_let_anybody_down():
    """Of those with the image, the first in the inventory's order."""
    board = SiteBoard(NAMES)
    for name in NAMES:
        board.enter(name)
    assert board.helpers({"r3", "r2"}, 1) == ("r2",)
    board.blame("r2")
    assert (board.helpers({"r3", "r2"}, 1), board.helpers({"r2"}, 1)) == (("r3",), ())


def test_as_many_help_as_the_others_need():
    """One for so many as one serves at a time; nobody is taken in hand again for nothing."""
    board = SiteBoard((*NAMES, "r4", "r5"), degree=2)
    proven = {"r1", "r2", "r3"}
    assert [board.helpers(proven, devices) for devices in (1, 2, 3, 9)] == [
        ("r1",),
        ("r1",),
        ("r1", "r2"),
        ("r1", "r2", "r3"),
    ]


def test_who_was_done_before_may_serve_those_that_are_left_at_its_site():
    """Not one of another site, nor one that takes no part, nor one that left the inventory."""
    data = {"site": "branch", "neighbours": True}
    hosts = {
        name: Host(name=name, hostname="192.0.2.1", platform="ios", data=data | more)
        for name, more in {
            "r1": {},
            "r2": {},
            "r3": {"clear_text": False},
            "s1": {"site": "other"},
            "t1": {"neighbours": False},
        }.items()
    }
    assert may_serve(("r1", "r3", "s1", "t1", "gone"), ("r2",), hosts) == ("r1",)
    assert may_serve(("r1", "s1"), ("r3", "t1"), hosts) == ()


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"neighbours": False}, "neighbours: true"),
        ({"site": None}, "neighbours: true"),
        ({"clear_text": False}, "forbids clear text"),
        ({"vrf": "Mgmt"}, "VRF 'Mgmt'"),
        ({}, ""),
    ],
)
def test_who_takes_part(more, words):
    """A site that says so, in clear text, and the global table."""
    assert words in objection(host("r1", **more))
    assert bool(objection(host("r1", **more))) is bool(words)


def test_a_tree_is_of_one_site_and_one_image():
    """A device of another site, or with another image, is in another one."""
    views = {name: host(name) for name in NAMES} | {"s1": host("s1", site="other"), "x": host("x", neighbours=False)}
    images = {name: SimpleNamespace(sha512="a") for name in views} | {"r3": SimpleNamespace(sha512="b")}
    found = Neighbourhood(views, cast("Any", images))
    assert found.board_of("r1") is found.board_of("r2")
    assert len({found.board_of(name) for name in ("r1", "r3", "s1")}) == 3
    assert (found.board_of("x"), found.sites) == (None, {"branch", "other"})
