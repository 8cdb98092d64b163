"""Push among the ways by which an image comes to a device: no speed test, no listener."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from flashferry.core.errors import ConfigInvalid
from flashferry.model.policy import StagePolicy
from flashferry.run.request import RunOptions
from flashferry.run.server import may_push, served_for, serving, transports_of
from flashferry.transports import PUSH, SCP
from inventory.transport_policy import TransportPolicy


def asked(transport: str, *, to_null: bool = False) -> RunOptions:
    return RunOptions(policy=StagePolicy(transport=transport), to_null=to_null)


def device(*stated: str) -> SimpleNamespace:
    return SimpleNamespace(name="r1", transport_policy=TransportPolicy(stated=stated))


def test_nothing_is_pushed_to_null() -> None:
    """A speed test leaves push out, and says so where nothing else is left."""
    assert transports_of([device("scp", "push")], asked("auto", to_null=True)) == {"r1": (SCP,)}
    with pytest.raises(ConfigInvalid, match=r"r1: --transport push: .*'null:'") as caught:
        transports_of([device("scp", "push")], asked("push", to_null=True))
    assert caught.value.hint


def test_nothing_of_ours_listens_for_a_push() -> None:
    """The server serves what the other devices fetch by, and nothing where none fetches."""
    pushed = transports_of([device("scp", "push")], asked("push"))
    assert pushed == {"r1": (PUSH,)}
    assert served_for(pushed) == ()
    assert served_for({"r1": (PUSH,), "r2": (SCP,)}) == (SCP,)
    assert (may_push(pushed), may_push({"r2": (SCP,)})) == (True, False)
    with pytest.raises(ConfigInvalid, match="expected a transport that devices fetch by"):
        PUSH.listener(SimpleNamespace(address="0.0.0.0"))


def test_where_all_is_pushed_no_port_is_open_to_others(tmp_path: Path) -> None:
    """Nor is the usual port asked for, which somebody may have: the server's own process listens for nobody."""
    image = tmp_path / "image.bin"
    image.write_bytes(b"image")
    with serving((image,), RunOptions(), state=tmp_path, transports=(), pushes=True) as server:
        (listener,) = server.settings.listeners
        assert (listener.listen_address, listener.port) == ("127.0.0.1", 0)
        assert server.gone == ""
