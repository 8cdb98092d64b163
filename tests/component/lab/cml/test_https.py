"""The stand-in controller over real HTTPS: certificates, tokens, refusals, faults, the control port, the process."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, Request, build_opener

import pytest

from flashferry.lab.cml.standin import RunningController
from tests.component.lab.cml.conftest import Plain, StartController
from tests.patience import PATIENCE_S, until
from tests.unit.lab.cml.topologies import ONE_ROUTER


def _control(running: RunningController, method: str, path: str, body: object = None) -> Any:
    request = Request(
        f"{running.control}/standin/{path}", method=method, data=None if body is None else json.dumps(body).encode()
    )
    with build_opener(ProxyHandler({})).open(request, timeout=PATIENCE_S) as answer:
        return json.load(answer)


def test_only_its_own_authority_vouches_for_it(running: RunningController) -> None:
    """With its certificate everything is in order; without it the handshake fails."""
    assert Plain(running).ask("GET", "system_information").json["ready"] is True
    host, port = running.url.removeprefix("https://").split(":")
    connection = http.client.HTTPSConnection(host, int(port), context=ssl.create_default_context(), timeout=PATIENCE_S)
    with pytest.raises(ssl.SSLCertVerificationError):
        connection.request("GET", "/api/v0/system_information")
    connection.close()


def test_a_wrong_password_is_403_and_an_old_token_401(running: RunningController) -> None:
    """Every refusal has a code and a description in JSON."""
    plain = Plain(running)
    wrong = plain.ask("POST", "authenticate", {"username": "admin", "password": "wrong"})
    missing = plain.ask("GET", "labs")
    plain.log_in()
    assert plain.ask("GET", "labs").json == []
    running.faults.set(token_lifetime_s=0.0)
    old = plain.ask("GET", "labs")
    assert [each.status for each in (wrong, missing, old)] == [403, 401, 401]
    for each in (wrong, missing, old):
        assert each.json["code"] == each.status
        assert each.json["description"]


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("PUT", "labs/{lab}/start", None, 204),
        ("PUT", "labs/{lab}/stop", None, 204),
        ("PUT", "labs/{lab}/wipe", None, 204),
        ("DELETE", "labs/{lab}", None, 204),
        ("GET", "labs/no-such/state", None, 404),
        ("GET", "labs/{lab}/nodes/no-such", None, 404),
        ("GET", "labs/{lab}/links/no-such/condition", None, 404),
        ("GET", "no/such/call", None, 404),
        ("POST", "labs", {"title": "x" * 65}, 400),
        ("POST", "labs", {"colour": "red"}, 400),
        ("PATCH", "labs/{lab}", {"title": ""}, 400),
        ("POST", "import", b"lab: [", 400),
        ("POST", "import", b"\xff\xfe", 400),
        ("PATCH", "labs/{lab}", b"{", 400),
        ("POST", "images/upload", b"image", 400),
        ("GET", "diagnostics/licensing", None, 200),
        ("GET", "diagnostics/no-such", None, 404),
    ],
)
def test_each_call_has_its_status(plain: Plain, method: str, path: str, body: object, status: int) -> None:
    """204 without a word for orders, 400 for what is wrong, 404 for what is not there."""
    said = plain.ask(method, path.format(lab=plain.take()), body)
    assert said.status == status
    if status == 204:
        assert said.body == b""
    elif status >= 400:
        assert (said.json["code"], set(said.json)) == (status, {"code", "description"})


def test_a_lab_runs_its_whole_life(plain: Plain) -> None:
    """Import, start, converge, log, stop, wipe, delete, and a 404 with the words that clients look for."""
    lab = plain.take()
    plain.ask("PUT", f"labs/{lab}/start")
    until(lambda: plain.ask("GET", f"labs/{lab}/check_if_converged").json is True, "a lab that has converged")
    states = plain.ask("GET", f"labs/{lab}/lab_element_state").json["nodes"]
    assert set(states.values()) == {"BOOTED"}
    node = next(each for each in plain.ask("GET", f"labs/{lab}/nodes?data=true").json if each["label"] == "xe1")
    assert "xe1" in plain.ask("GET", f"labs/{lab}/nodes/{node['id']}/consoles/0/log").json["log"]
    assert plain.ask("DELETE", f"labs/{lab}").status == 403
    for order in ("stop", "wipe"):
        assert plain.ask("PUT", f"labs/{lab}/{order}").status == 204
    assert plain.ask("DELETE", f"labs/{lab}").status == 204
    gone = plain.ask("GET", f"labs/{lab}")
    assert (gone.status, gone.json["description"]) == (404, f"Lab not found: {lab}")


@pytest.mark.parametrize(
    ("switch", "status", "kind"),
    [("bad_gateway", 502, "text/html"), ("unavailable", 503, "text/html"), ("server_error", 500, "application/json"),
     ("expired_token", 401, "application/json"), ("forbidden", 403, "application/json")],
)  # fmt: skip
def test_a_fault_answers_instead_and_nothing_is_done(
    plain: Plain, running: RunningController, switch: str, status: int, kind: str
) -> None:
    """Once, for that path; the next try goes through, and only one lab is there."""
    running.faults.set(**{switch: {"path": "^import$", "count": 1}})
    first, second = (plain.ask("POST", "import", ONE_ROUTER.encode()) for _ in range(2))
    assert (first.status, second.status) == (status, 200)
    assert first.content_type.startswith(kind)
    assert len(plain.ask("GET", "labs").json) == 1


@pytest.mark.parametrize(("switch", "labs"), [("reset", 0), ("lost_answer", 1)])
def test_a_reset_comes_before_or_after_the_deed(
    plain: Plain, running: RunningController, switch: str, labs: int
) -> None:
    """The connection breaks; whether there is a lab now depends on the switch."""
    running.faults.set(**{switch: {"path": "^import$", "count": 1}})
    with pytest.raises(OSError, match=r"reset|without response|EOF"):
        plain.take()
    assert len(plain.ask("GET", "labs").json) == labs
    assert [(each.status, each.faults) for each in running.exchanges if each.path == "import"] == [(0, (switch,))]


@pytest.mark.parametrize(("switch", "labs"), [("slow", 0), ("slow_answer", 1)])
def test_an_import_that_is_waited_for_in_vain_makes_the_lab(
    plain: Plain, running: RunningController, switch: str, labs: int
) -> None:
    """Before or after the client has given up; and not a moment before, however long it waits."""
    running.faults.set(**{switch: {"path": "^import$", "is_in_vain": True, "count": 1}})
    host, port = running.url.removeprefix("https://").split(":")
    tls = ssl.create_default_context(cafile=str(running.ca_file))
    connection = http.client.HTTPSConnection(host, int(port), context=tls, timeout=PATIENCE_S)
    headers = {"Authorization": f"Bearer {plain.token}"}
    connection.request("POST", "/api/v0/import", ONE_ROUTER.encode(), headers)
    until(lambda: running.web.held == ["import"], "the request to be held")
    assert len(plain.ask("GET", "labs").json) == labs
    connection.close()
    until(lambda: not running.web.held, "the request to be carried out")
    until(lambda: len(plain.ask("GET", "labs").json) == 1, "the lab")


def test_answers_in_plain_text(plain: Plain, running: RunningController) -> None:
    """What should be JSON is a sentence; of console logs alone by a switch of their own."""
    lab = plain.take()
    running.faults.set(plain_text={"path": "state$"}, console_log_as="plain")
    node = plain.ask("GET", f"labs/{lab}/nodes").json[1]
    for path in (f"labs/{lab}/state", f"labs/{lab}/nodes/{node}/consoles/0/log"):
        said = plain.ask("GET", path)
        assert said.content_type.startswith("text/plain")
        with pytest.raises(ValueError, match="Expecting value"):
            said.json  # noqa: B018


def test_the_door_turns_switches_while_it_runs(plain: Plain, running: RunningController) -> None:
    """Shown, set, refused with a sentence, put back; tokens stand in no exchange."""
    assert _control(running, "GET", "faults")["is_ready"]["value"] is True
    _control(running, "PUT", "faults", {"is_ready": False, "version": "2.8.1"})
    reported = plain.ask("GET", "system_information").json
    assert (reported["ready"], reported["version"]) == (False, "2.8.1")
    with pytest.raises(OSError, match="400"):
        _control(running, "PUT", "faults", {"no_such": 1})
    _control(running, "DELETE", "faults")
    assert plain.ask("GET", "system_information").json["ready"] is True
    plain.take()
    exchanges = json.dumps(_control(running, "GET", "exchanges"))
    assert "authenticate" in exchanges
    assert plain.token not in exchanges
    assert [lab["title"] for lab in _control(running, "GET", "labs")] == ["one router"]


def test_the_control_port_may_be_a_unix_socket(start_controller: StartController, tmp_path: Path) -> None:
    """A path that reaches across network namespaces; it is gone with the controller."""
    running = start_controller(control_at=tmp_path / "control")
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(running.control)
        connection.sendall(b"GET /standin/faults HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        with connection.makefile("rb") as stream:
            assert b"200 OK" in stream.readline()
            assert b'"is_ready"' in stream.read()


@pytest.mark.parametrize(
    ("version", "account", "key_is_link"),
    [("2.8.1", 404, False), ("2.9.1+build.7", 404, False), ("2.10.0+build.5", 200, True), ("2.11.0+sso", 200, True)],
)
def test_versions_differ(start_controller: StartController, version: str, account: int, key_is_link: bool) -> None:
    """The call for one's own account came with 2.10, as did captures by the link's id."""
    running = start_controller(version=version)
    plain = Plain(running)
    plain.log_in()
    assert (plain.ask("GET", "authentication").status, plain.ask("GET", "authok").status) == (account, 200)
    lab = plain.take()
    link = plain.ask("GET", f"labs/{lab}/links").json[0]
    plain.ask("PUT", f"labs/{lab}/start")
    until(lambda: plain.ask("GET", f"labs/{lab}/check_if_converged").json is True, "a lab that has converged")
    plain.ask("PUT", f"labs/{lab}/links/{link}/capture/start", {"maxpackets": 1})
    key = plain.ask("GET", f"labs/{lab}/links/{link}/capture/key").json
    assert (key == link) is key_is_link
    assert plain.ask("GET", f"pcap/{key}").body[:4] == b"\xd4\xc3\xb2\xa1"


@pytest.mark.parametrize("is_form", [True, False])
def test_an_image_arrives_whole(plain: Plain, running: RunningController, is_form: bool) -> None:
    """By a form or as the bare body; with bytes in it that look like the end of a form."""
    image = bytes(range(256)) * 5000 + b"\r\n--x--\r\n" + b"end"
    body = image
    headers = {"X-Original-File-Name": "new.qcow2"}
    if is_form:
        headers["Content-Type"] = "multipart/form-data; boundary=b0undary"
        head = b'--b0undary\r\nContent-Disposition: form-data; name="field0"; filename="new.qcow2"\r\n\r\n'
        body = head + image + b"\r\n--b0undary--\r\n"
    assert plain.ask("POST", "images/upload", body, headers=headers).json == "Success"
    assert (running.folder / "images" / "new.qcow2").read_bytes() == image
    assert plain.ask("GET", "list_image_definition_drop_folder").json == ["new.qcow2"]


def test_a_stranger_sees_only_what_is_his(running: RunningController, plain: Plain) -> None:
    """Others' labs are not found; the administrator lists both where he asks for all."""
    stranger = Plain(running)
    stranger.log_in("stranger")
    mine, his = plain.take(), stranger.take()
    assert stranger.ask("GET", f"labs/{mine}").status == 404
    assert (plain.ask("GET", "labs").json, plain.ask("GET", "labs?show_all=true").json) == ([mine], [mine, his])


def test_it_runs_as_a_process_and_ends_by_sigterm() -> None:
    """One line of JSON says where; nothing is left of its folder."""
    command = [sys.executable, "-m", "flashferry.lab.cml", "--version", "2.9.1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ}) as process:
        try:
            assert process.stdout is not None
            reported = json.loads(process.stdout.readline())
            assert Path(reported["ca_file"]).is_file()
            assert reported["url"].startswith("https://127.0.0.1:")
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE_S) == 0
        finally:
            process.kill()
    assert not Path(reported["ca_file"]).parent.exists()
