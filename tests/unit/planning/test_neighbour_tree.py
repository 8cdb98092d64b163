"""Who serves whom: one over the WAN, then a tree of small degree; what a failure changes, and what it never does."""

from __future__ import annotations

import random

import pytest

from flashferry.planning.neighbour_tree import SiteTree, Stand, degree_for

NAMES = tuple(f"r{number}" for number in range(1, 8))


def tree(*waiting: str, degree: int = 3) -> SiteTree:
    made = SiteTree(NAMES, degree)
    for name in waiting:
        made.enter(name)
    for name in waiting:
        made.wait(name, can_serve=True)
    return made


def stands(made: SiteTree, stand: Stand) -> list[str]:
    return [name for name in NAMES if name in made.members and made.members[name].stand is stand]


@pytest.mark.parametrize("order", [NAMES, NAMES[::-1], ("r4", "r1", "r7", "r2", "r3", "r6", "r5")])
def test_the_first_in_the_inventory_goes_over_the_wan(order):
    """In whatever order devices come to wait: the choice is the inventory's."""
    made = SiteTree(NAMES)
    for name in NAMES:
        made.enter(name)
    for name in order:
        made.wait(name, can_serve=True)
    assert stands(made, Stand.WAN) == ["r1"]
    assert stands(made, Stand.WAITING) == list(NAMES[1:])


def test_one_that_is_not_under_way_is_not_waited_for():
    """Its window may be closed, or its wave another."""
    assert stands(tree("r3", "r4"), Stand.WAN) == ["r3"]


def test_one_that_cannot_serve_is_not_the_first_where_another_can():
    """It would bring the image to the site for nobody."""
    made = SiteTree(NAMES)
    for name in ("r1", "r2", "r3"):
        made.enter(name)
    made.wait("r1", can_serve=False)
    assert stands(made, Stand.WAN) == []
    made.wait("r2", can_serve=True)
    assert stands(made, Stand.WAN) == ["r2"]


def test_where_none_can_serve_all_take_the_wan():
    """Then it is a site like any other."""
    made = SiteTree(NAMES)
    for name in ("r1", "r2"):
        made.enter(name)
    for name in ("r1", "r2"):
        made.wait(name, can_serve=False)
    assert stands(made, Stand.WAN) == ["r1", "r2"]


def test_a_proven_device_serves_no_more_than_its_degree():
    """The others wait for the next ones that are proven, and go to who serves the fewest."""
    made = tree(*NAMES, degree=2)
    made.prove("r1")
    assert made.children("r1") == ("r2", "r3")
    assert stands(made, Stand.WAITING) == ["r4", "r5", "r6", "r7"]
    made.begin("r2")
    made.prove("r2")
    assert (made.children("r1"), made.children("r2")) == (("r3", "r5"), ("r4", "r6"))


@pytest.mark.parametrize(
    ("devices", "degree"), [(1, 3), (4, 3), (5, 4), (6, 5), (7, 3), (16, 3), (20, 4), (25, 4), (36, 5), (37, 3)]
)
def test_a_device_serves_more_where_that_saves_a_row(devices, degree):
    """Four at a time bring 20 devices in two rows behind the first, three in three; one more never for nothing."""
    assert degree_for(devices) == degree


def test_who_is_next_when_those_under_way_are_proven():
    """Each brings its own places, and gives back the one that it has."""
    made = tree(*NAMES, degree=2)
    made.prove("r1")
    assert made.next_with(0) == ()
    assert made.next_with(1) == ("r4", "r5", "r6")
    assert made.next_with(2) == ("r4", "r5", "r6", "r7")


def test_a_device_without_a_proof_never_serves():
    """Who takes it over the WAN has nobody until it says that it is proven, and nobody where it leaves before."""
    made = tree("r1", "r2", "r3")
    assert made.serving == []
    made.leave("r1")
    assert (made.serving, stands(made, Stand.WAN)) == ([], ["r2"])


def test_who_was_let_down_takes_the_wan_and_its_neighbour_gets_nobody_new():
    """Also the next time that it is under way."""
    made = tree("r1", "r2", "r3", "r4", "r5", degree=2)
    made.prove("r1")
    assert made.let_down("r2") == "r1"
    assert stands(made, Stand.WAN) == ["r2"]
    assert made.children("r1") == ("r3",)
    made.enter("r2")
    made.wait("r2", can_serve=True)
    assert made.members["r2"].stand is Stand.WAN


def test_other_bytes_cost_a_neighbour_its_place_and_not_the_children_under_way():
    """What they got is proven by their own hash."""
    made = tree("r1", "r2", "r3", "r4", degree=2)
    made.prove("r1")
    made.begin("r2")
    made.begin("r3")
    made.blame("r1")
    assert made.children("r1") == ("r2", "r3")
    made.prove("r2")
    assert made.children("r2") == ("r4",)


def test_who_was_not_let_in_waits_for_another():
    """A device that takes no serving lines, or ends; one that was let in goes on with its copy."""
    made = tree("r1", "r2", "r3", degree=2)
    made.prove("r1")
    made.begin("r2")
    made.release("r1")
    assert made.children("r1") == ("r2",)
    assert (stands(made, Stand.WAITING), made.is_needed("r1")) == (["r3"], True)
    made.prove("r2")
    assert (made.children("r2"), made.is_needed("r1")) == (("r3",), False)


def test_a_device_with_the_image_is_waited_for():
    """One of an earlier wave comes to serve: nobody takes the WAN before it is proven anew, or is gone."""
    made = SiteTree(NAMES)
    made.enter("r5", has_image=True)
    made.enter("r1")
    made.wait("r1", can_serve=True)
    assert stands(made, Stand.WAN) == []
    made.prove("r5")
    assert made.children("r5") == ("r1",)


def test_it_is_needed_as_long_as_somebody_may_come():
    """One that is still looked at counts; one that takes the WAN does not."""
    made = tree("r1")
    made.prove("r1")
    assert not made.is_needed("r1")
    made.enter("r2")
    assert made.is_needed("r1")
    made.leave("r2")
    assert not made.is_needed("r1")


@pytest.mark.parametrize("seed", range(40))
def test_whatever_fails_everybody_ends_and_no_edge_leads_from_an_unproven_device(seed):
    """Random ends of copies, lines and devices: nobody waits for ever, no degree is passed, no circle is made."""
    dice = random.Random(seed)
    made = tree(*NAMES, degree=2)
    proven: set[str] = set()
    for _ in range(400):
        for name in NAMES:
            parent = made.members[name].parent
            assert parent is None or parent in proven
            assert len(made.children(name)) <= 2
        moving = [*stands(made, Stand.WAN), *stands(made, Stand.CHILD)]
        if not moving:
            break
        name = dice.choice(moving)
        if made.members[name].stand is Stand.CHILD and not made.members[name].is_fetching:
            made.begin(name) if dice.random() < 0.8 else made.release(made.members[name].parent or "")
        elif dice.random() < 0.6:
            proven.add(name)
            made.prove(name)
        elif made.members[name].stand is Stand.CHILD:
            made.let_down(name)
        else:
            made.leave(name)
    assert stands(made, Stand.WAITING) == stands(made, Stand.WAN) == stands(made, Stand.CHILD) == []
