"""Which file server a run takes: the host's depot or one of its own, and what it is refused for beforehand."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import pytest

from flashferry.core.errors import ConfigInvalid
from flashferry.depot.daemon import Depot
from flashferry.depot.options import DepotOptions
from flashferry.depot.paths import NAME, DepotNotUsable, socket_of
from flashferry.fileserver import FileServer
from flashferry.model.policy import ServerPlace
from flashferry.run import server
from flashferry.run.request import RunOptions
from flashferry.run.server import depot_for, own_fingerprints, port_notices, server_notes, serving
from flashferry.transports import HTTP, USUAL
from tests.patience import until


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(server, "DEPOT_STARTS_S", 0.1)


@pytest.fixture(scope="module")
def depot(tmp_path_factory):
    options = DepotOptions(state=tmp_path_factory.mktemp("d"), listen="127.0.0.1", port=0)
    with Depot(options) as running:
        yield running


@pytest.fixture
def image(tmp_path):
    path = tmp_path / "x.bin"
    path.write_bytes(b"an image")
    return path


def stale_socket(path: Path) -> Path:
    with socket.socket(socket.AF_UNIX) as line:
        line.bind(str(path))
    return path


def test_where_there_is_none_a_run_brings_its_own(tmp_path, image):
    """By itself and where it is told to, without a word about it."""
    for wish in ("auto", "never"):
        options = RunOptions(server=ServerPlace(listen_address="127.0.0.1", depot=wish))
        with depot_for(options, tmp_path) as (found, same, note):
            assert (found, same, note) == (None, options, "")
            with serving((image,), options, state=tmp_path, depot=found) as own:
                assert isinstance(own, FileServer)
                assert (own.label, own.slot_reservations) == ("", None)


def test_one_in_the_state_folder_is_found(depot, image):
    """Its ports are no news, its image is the run's, and it is told apart where ports are told."""
    options = RunOptions()
    with depot_for(options, depot.options.state) as (found, same, note):
        assert (same.server.certificate, same.host_keys, note) == (None, depot.options.host_keys, "")
        with serving((image,), same, state=depot.options.state, depot=found) as there:
            assert there.image("x.bin").size_bytes == 8
            assert there.label == f" of the depot at {depot.options.at}"
            assert list(port_notices(there, same, (USUAL,))) == []
            assert own_fingerprints(depot.options.state, (USUAL,), same) == ()


def test_what_its_own_server_reports_of_itself_is_among_a_run_s_events(depot, tmp_path, image):
    """Such as a process that hangs, for as long as the block lasts; what the depot reports is the depot's."""
    notes: list[str] = []
    options = RunOptions(server=ServerPlace(listen_address="127.0.0.1"))
    with serving((image,), options, state=tmp_path) as own:
        with server_notes(own, notes.append):
            own.note("a process hangs")
        own.note("a process answers again")
    assert notes == ["note: a process hangs"]
    state = depot.options.state
    with (
        depot_for(RunOptions(), state) as (found, same, _),
        serving((image,), same, state=state, depot=found) as there,
        server_notes(there, notes.append),
    ):
        depot.server.note("offers an image")
        until(lambda: "offers an image" in there.notices, "what the depot reports")
    assert notes == ["note: a process hangs"]


def refusal(context) -> str:
    """Return with what words entering a context is refused."""
    with pytest.raises(ConfigInvalid) as told, context:
        pytest.fail("it was entered")
    return str(told.value)


@pytest.mark.parametrize("wish", ["auto", "insisted"])
def test_where_nobody_answers(tmp_path, wish):
    """By itself a run goes on alone and says so; one that insists is refused."""
    path = stale_socket(tmp_path / NAME)
    options = RunOptions(server=ServerPlace(depot=str(path) if wish == "insisted" else wish))
    if wish == "insisted":
        assert re.search("--depot: depot .*Connection refused.*--depot never", refusal(depot_for(options, tmp_path)))
        return
    with depot_for(options, tmp_path) as (found, same, note):
        assert (found, same) == (None, options)
        assert "this run brings its own file server" in note


def test_another_user_s_is_none_of_ours(depot, monkeypatch):
    """By itself a run goes on alone, with the reason."""

    def refused(*_given, **_more):
        raise DepotNotUsable("depot: it is of user web")

    monkeypatch.setattr(server, "DepotClient", refused)
    with depot_for(RunOptions(), depot.options.state) as (found, _, note):
        assert (found, "of user web" in note) == (None, True)


def test_another_port_or_certificate_is_refused(depot, tmp_path):
    """They are the depot's; its own port may be named."""
    state = depot.options.state
    of_http = RunOptions(server=ServerPlace(other_ports={"http": 80}))
    certified = RunOptions(server=ServerPlace(certificate=tmp_path / "c", key=tmp_path / "k"))
    assert "ftp port 4711: expected the depot's" in refusal(depot_for(RunOptions(server=ServerPlace(port=4711)), state))
    assert re.search("http port 80: expected the depot's .* which has none", refusal(depot_for(of_http, state)))
    assert re.search("--certificate .* which has none", refusal(depot_for(certified, state)))
    with depot_for(RunOptions(server=ServerPlace(port=depot.server.port)), state) as (found, _, _note):
        assert found is not None


def test_a_transport_that_it_does_not_serve_is_told(depot, image):
    """Before anything is touched."""
    state = depot.options.state
    with depot_for(RunOptions(), state) as (found, options, _):
        told = refusal(serving((image,), options, state=state, transports=(USUAL, HTTP), depot=found))
    assert "expected http, which devices of this run may fetch by, found ftp" in told


def test_an_image_that_is_not_there_is_told(depot, tmp_path):
    """As without a depot: the operator's to mend."""
    state = depot.options.state
    with depot_for(RunOptions(), state) as (found, options, _):
        told = refusal(serving((tmp_path / "gone.bin",), options, state=state, depot=found))
    assert "gone.bin: No such file" in told


def test_where_sockets_are_looked_for(tmp_path):
    """What is said counts, made whole; by itself only a socket that is there."""
    assert socket_of("never", tmp_path) is None
    assert socket_of("some.sock", tmp_path) == Path.cwd() / "some.sock"
    (tmp_path / NAME).write_text("no socket")
    assert socket_of("auto", tmp_path) is None
