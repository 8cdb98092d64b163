"""From a request to its answer: no call breaks the controller, whatever comes in."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from starlette.requests import Request
from starlette.responses import Response

from flashferry.lab.cml.elements import Lab
from flashferry.lab.cml.routing import BASE, ApiRoute, answer
from flashferry.lab.cml.standin import ROUTES
from tests.some import some
from tests.unit.lab.cml.conftest import ADMIN, Rig

BODIES = (
    b"",
    b"null",
    b"[]",
    b"{}",
    b'"x"',
    b"7",
    b"{",
    b"\xff",
    b'[{"key": []}]',
    b'{"title": 5, "description": 7, "notes": [], "node_staging": 1}',
    b'{"label": "a", "node_definition": "iosv", "x": "far", "tags": 5}',
    b'{"label": 5, "node_definition": [], "configuration": 7}',
    b'{"configuration": [5], "image_definition": {}}',
    b'{"node": "NODE", "slot": "a"}',
    b'{"node": "NODE", "slot": 1000000}',
    b'{"node": [], "src_int": {}, "dst_int": 5}',
    b'{"maxpackets": "many"}',
    b'{"maxtime": true, "bpfilter": 5}',
    b'{"latency": [], "loss": "nan"}',
    b'{"loss": NaN}',
    b'{"type": [], "tag": 5}',
    b'{"mac_address": 5}',
    b'{"id": "x", "node_definition_id": [], "label": "x", "disk_image": "x"}',
    b'{"id": 5}',
    b'{"username": [], "password": {}}',
    b"lab: 5\nnodes: 7",
    b"lab: {title: x, version: 0.3.0}\nnodes: [{label: a, id: [], node_definition: {}, x: far, y: 1}]",
    b"lab: {title: x, version: 0.3.0}\nnodes: [{label: a, id: 1, node_definition: iosv, x: far, y: 1}]",
    b"lab: {title: x, version: 0.3.0}\nnodes: []\nlinks: [7]",
    b"? [a]\n: 5",
)


def _request(method: str, path: str, headers: dict[str, str] | None = None) -> Request:
    raw = [(name.encode(), value.encode()) for name, value in (headers or {}).items()]
    return Request({"type": "http", "method": method, "path": BASE + path, "query_string": b"", "headers": raw})


@dataclass(frozen=True, slots=True, kw_only=True)
class Asker:
    """Asks as the administrator, about one lab that runs."""

    rig: Rig
    lab: Lab
    token: str
    spool: Path
    routes: tuple[ApiRoute, ...] = field(default=ROUTES)

    def ask(self, method: str, path: str, body: bytes = b"") -> Response:
        headers = {"authorization": f"Bearer {self.token}", "x-original-file-name": "x.qcow2"}
        return answer(self.rig.controller, self.routes, _request(method, path, headers), body, self.spool)

    def path(self, template: str) -> str:
        node = next(node for node in self.lab.nodes.values() if node.label == "xe1")
        link = next(link_id for link_id, link in self.lab.links.items() if link.label == "wan1")
        known = {"lab": self.lab.lab_id, "node": node.node_id, "link": link, "key": link, "definition": "iosv"}
        known |= {"interface": node.interfaces[1].interface_id, "user": "admin", "annotation": self.annotation}
        return re.sub(r"\{(\w+)\}", lambda match: known.get(match.group(1), "0"), template)

    @property
    def annotation(self) -> str:
        return next(iter(self.lab.smart_annotations), "none")


@pytest.fixture
def asker(rig: Rig, tmp_path: Path) -> Asker:
    lab = rig.take()
    rig.start(lab)
    rig.clock.now += 60
    token = rig.controller.access.token(ADMIN.username, ADMIN.password)
    (tmp_path / "spool").write_bytes(b"--x\r\n\r\n")
    return Asker(rig=rig, lab=lab, token=token, spool=tmp_path / "spool")


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
def test_no_body_breaks_a_call(asker: Asker, method: str) -> None:
    """Every call takes or refuses what is sent: a status with JSON, a text or nothing, and never an exception."""
    node = next(iter(asker.lab.nodes))
    for route in some(each for each in ROUTES if each.method == method):
        for body in BODIES:
            said = asker.ask(method, asker.path(route.template), body.replace(b"NODE", node.encode()))
            assert said.status_code in {200, 204, 400, 403, 404}, (route.template, body)
            if said.status_code >= 400:
                assert set(json.loads(said.body)) == {"code", "description"}
    assert asker.ask("GET", f"labs/{asker.lab.lab_id}/download").status_code == 200


def test_every_look_at_a_lab_is_answered(asker: Asker) -> None:
    """With what there is; by a 404 only where the lab has no such thing yet."""
    missing = {
        route.template
        for route in some(each for each in ROUTES if each.method == "GET")
        if asker.ask("GET", asker.path(route.template)).status_code >= 400
    }
    assert missing == {"pcap/{key}", "labs/{lab}/links/{link}/capture/key", "diagnostics/{category}"}


def test_every_call_but_two_wants_a_token(asker: Asker) -> None:
    """The version and the login are open; all else is a 401 without a token."""
    rig = asker.rig
    is_open = []
    for route in ROUTES:
        said = answer(rig.controller, ROUTES, _request(route.method, asker.path(route.template)))
        if said.status_code != 401:
            is_open.append(route.template)
    assert is_open == ["system_information", "authenticate"]
