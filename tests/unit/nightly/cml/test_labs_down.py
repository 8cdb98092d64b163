"""A lab is taken down whatever its state, whatever a controller answers in between, and nothing but ours."""

from __future__ import annotations

import httpx
import pytest

from flashferry.nightly.backend import Deadline, RunningLab
from flashferry.nightly.cml.labs import take_down
from flashferry.nightly.night import Fault, NightFault
from tests.unit.nightly.cml.scripted import LAB, PAGE_502, TITLE, Scripted, controller, error
from tests.unit.nightly.fakes import WoundClock

OURS = RunningLab(lab_id=LAB, title=TITLE)


class OneLab(Scripted):
    """A controller with one lab, which knows the order of things.

    Args:
        state: The lab's.
        looks_to_stop: It has stopped after so many looks.
        told_when_wiped: What its state is then.
        refusal: The code of an order in the wrong moment.
    """

    def __init__(
        self,
        state: str = "STARTED",
        *,
        looks_to_stop: int = 2,
        told_when_wiped: str = "DEFINED_ON_CORE",
        refusal: int = 403,
    ) -> None:
        super().__init__()
        self.state: str | None = state
        self.title = TITLE
        self._looks, self._refusal, self._told_when_wiped = looks_to_stop, refusal, told_when_wiped
        self._is_stopping = False
        self._is_wiped = state == "DEFINED_ON_CORE"
        lab = f"labs/{LAB}"
        self.on(f"GET {lab}", self.look)
        self.on(f"PUT {lab}/stop", self.stop)
        self.on(f"PUT {lab}/wipe", self.wipe)
        self.on(f"DELETE {lab}", self.remove)
        self.on(f"GET {lab}/lab_element_state", {"nodes": {"n1": "DISCONNECTED", "n2": "STOPPED"}})
        self.on(f"PUT {lab}/nodes/n1/state/stop", httpx.Response(204))

    def look(self, _: httpx.Request) -> object:
        if self.state is None:
            return error(404, f"Lab not found: {LAB}")
        if self._is_stopping:
            self._looks -= 1
            self.state = "STOPPED" if self._looks <= 0 else self.state
        return {"id": LAB, "lab_title": self.title, "state": self.state}

    def stop(self, _: httpx.Request) -> httpx.Response:
        self._is_stopping = self.state == "STARTED"
        return httpx.Response(204)

    def wipe(self, _: httpx.Request) -> httpx.Response:
        if self.state == "STARTED":
            return error(self._refusal, "The lab must be stopped before it can be wiped")
        self.state, self._is_wiped, self._is_stopping = self._told_when_wiped, True, False
        return httpx.Response(204)

    def remove(self, _: httpx.Request) -> httpx.Response:
        if not self._is_wiped:
            return error(self._refusal, "The lab must be wiped")
        self.state = None
        return httpx.Response(204)


def down(script: Scripted, seconds: float = 300) -> WoundClock:
    clock = WoundClock()
    take_down(controller(script, clock=clock), OURS, deadline=Deadline.after(seconds, clock))
    return clock


@pytest.mark.parametrize("state", ["STARTED", "STOPPED", "DEFINED_ON_CORE"])
@pytest.mark.parametrize("told_when_wiped", ["DEFINED_ON_CORE", "STOPPED"])
@pytest.mark.parametrize("refusal", [400, 403, 409])
def test_a_lab_is_gone_from_whatever_state(state, told_when_wiped, refusal):
    """Whether a wiped lab is told to be stopped is not known, nor the codes of refusals."""
    script = OneLab(state, told_when_wiped=told_when_wiped, refusal=refusal)
    down(script)
    assert script.state is None
    assert script.asked[-1] == f"GET labs/{LAB}"


def test_the_order_is_stop_wipe_delete_and_a_last_look():
    """Nothing else counts as gone but 404."""
    script = OneLab()
    down(script)
    orders = [one.partition(" ")[0] + one.rpartition("/")[2] for one in script.asked if not one.startswith("GET")]
    assert orders == ["PUTstop", "PUTwipe", f"DELETE{LAB}"]


def test_one_that_is_gone_already_is_no_error():
    """Somebody was quicker."""
    down(Scripted())


def test_a_lab_that_does_not_stop_is_told_again_and_each_of_its_nodes_too():
    """A node that lost its host hangs; its orders come every half minute, not every second."""
    script = OneLab(looks_to_stop=50)
    down(script)
    assert script.asked.count(f"PUT labs/{LAB}/stop") == 2
    assert f"PUT labs/{LAB}/nodes/n1/state/stop" in script.asked
    assert f"PUT labs/{LAB}/nodes/n2/state/stop" not in script.asked


def test_one_that_never_stops_is_the_clean_ups_fault():
    """With its state; and it ends with its own clock."""
    script = OneLab(looks_to_stop=10_000)
    with pytest.raises(NightFault, match=f"lab {TITLE} is still there, STARTED") as found:
        down(script, 120)
    assert (found.value.fault, found.value.step) == (Fault.CLEANUP, "clean")


def test_what_the_controller_said_last_is_told():
    """Somebody has to go there."""
    script = OneLab("DEFINED_ON_CORE")
    script.on(f"DELETE labs/{LAB}", error(403, "Not the owner"))
    with pytest.raises(NightFault, match="could not remove the lab: its user may not: Not the owner"):
        down(script, 30)


@pytest.mark.parametrize(
    "where", [f"GET labs/{LAB}", f"PUT labs/{LAB}/stop", f"PUT labs/{LAB}/wipe", f"DELETE labs/{LAB}"]
)
@pytest.mark.parametrize("trouble", [PAGE_502, httpx.ReadTimeout("slow"), httpx.ConnectError("gone")], ids=str)
def test_trouble_that_passes_stops_nothing(where, trouble):
    """At whatever step it comes."""
    script = OneLab()
    script.on(where, trouble, trouble, *script.answers[where])
    down(script)
    assert script.state is None


def test_a_controller_that_does_not_answer_is_the_clean_ups_fault():
    """The lab may still run."""
    with pytest.raises(NightFault, match="502") as found:
        down(Scripted({f"GET labs/{LAB}": PAGE_502}), 100)
    assert found.value.fault is Fault.CLEANUP


@pytest.mark.parametrize("title", ["a stranger's", "ff-nightly-20261122T0100-0000"])
def test_a_lab_that_is_called_otherwise_is_left_alone(title):
    """Nothing is done to it, and it is told."""
    script = OneLab()
    script.title = title
    with pytest.raises(NightFault, match="left alone") as found:
        down(script)
    assert found.value.fault is Fault.CLEANUP
    assert script.asked == [f"GET labs/{LAB}"]
