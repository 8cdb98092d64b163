"""Calls about labs as a whole."""

from __future__ import annotations

from typing import Any

from flashferry.lab.cml.elements import Lab
from flashferry.lab.cml.routing import ApiRoute, Call, as_yaml
from flashferry.lab.cml.texts import refused
from flashferry.lab.cml.topology import checked_title

_EXTRAS = ("autostart", "node_staging")
_TRAFFIC_BYTES_PER_S = 1500


def _list(call: Call) -> list[str]:
    return [lab.lab_id for lab in call.controller.seen_by(call.user, is_all=call.asks("show_all"))]


def _create(call: Call) -> dict[str, Any]:
    given = call.object
    extras = _checked_extras(call, given)
    title, description, notes = given.get("title"), str(given.get("description") or ""), str(given.get("notes") or "")
    lab = call.controller.create(call.user, title=title, description=description, notes=notes)
    lab.extras.update(extras)
    return call.controller.shapes.lab(lab)


def _import(call: Call) -> dict[str, Any]:
    lab = call.controller.take(call.text, call.user, title=call.query.get("title"))
    return {"id": lab.lab_id, "warnings": []}


def _import_old(call: Call) -> dict[str, Any]:
    lab = call.controller.create(call.user, title=call.query.get("title"))
    return {"id": lab.lab_id, "warnings": ["The stand-in reads nothing of VIRL 1.x: the lab is empty."]}


def _change(call: Call) -> dict[str, Any]:
    given = call.object
    extras = _checked_extras(call, given)
    if not all(isinstance(given.get(key, ""), str) for key in ("description", "notes")):
        raise refused("bad_request", why="description and notes: expected texts")
    if "title" in given:
        call.lab.title = checked_title(given["title"])
    call.lab.description = given.get("description", call.lab.description)
    call.lab.notes = given.get("notes", call.lab.notes)
    call.lab.extras.update(extras)
    call.lab.modified = call.controller.now()
    call.controller.life.note(call.lab, "CHANGE", "LAB", call.lab.lab_id)
    return call.controller.shapes.lab(call.lab)


def _checked_extras(call: Call, given: dict[str, Any]) -> dict[str, Any]:
    known = {"title", "description", "notes", "owner", "groups", "associations"}
    known |= set(_EXTRAS) if call.controller.version >= (2, 10) else set()
    if unknown := sorted(set(given) - known):
        raise refused("bad_request", why=f"additional properties are not allowed ({unknown[0]!r} was unexpected)")
    return {key: given[key] for key in _EXTRAS if key in given}


def _start(call: Call) -> None:
    call.controller.life.start(call.lab, running=call.controller.counted())
    call.controller.life.observe(call.lab)


def _stop(call: Call) -> None:
    call.controller.life.stop(call.lab)
    call.controller.life.observe(call.lab)


def _wipe(call: Call) -> None:
    call.controller.life.wipe(call.lab)
    call.controller.life.observe(call.lab)


def _topology(call: Call) -> dict[str, Any]:
    excluded = call.query.get("exclude_configurations", "")
    configurations = {"true": "none", "false": "all"}.get(excluded.lower(), "main")
    return call.controller.shapes.topology(call.lab, schema=call.controller.schema, configurations=configurations)


def _testbed(call: Call) -> str:
    host = call.query.get("hostname") or call.request.headers.get("host", "localhost").partition(":")[0]
    return call.controller.shapes.testbed(call.lab, host=host)


def _addresses(call: Call) -> dict[str, Any]:
    found = {node_id: _addresses_of(call, call.lab, node_id) for node_id in call.lab.nodes}
    return {node_id: each for node_id, each in found.items() if each["interfaces"]}


def _addresses_of(call: Call, lab: Lab, node_id: str) -> dict[str, Any]:
    switches, node = call.controller.switches, lab.nodes[node_id]
    hidden = not switches.value("is_snooping") or node.label in switches.value("no_address")
    return call.controller.shapes.addresses(lab, node, hidden=hidden)


def _statistics(call: Call) -> dict[str, Any]:
    life, grown = call.controller.life, int(call.controller.uptime_s()) * _TRAFFIC_BYTES_PER_S
    nodes = {
        key: {"cpu_usage": 1.0, "block0_rd_bytes": grown, "block0_wr_bytes": grown}
        for key, node in call.lab.nodes.items()
        if life.state(call.lab, node).is_running
    }
    packets = grown // 100
    one = {"readbytes": grown, "readpackets": packets, "writebytes": grown, "writepackets": packets, "drops": 0}
    links = {key: one for key, link in call.lab.links.items() if life.link_state(call.lab, link) == "STARTED"}
    return {"nodes": nodes, "links": links}


def _tiles(call: Call) -> dict[str, Any]:
    call.controller.expire_gone()
    return {"lab_tiles": call.controller.tiles(call.user)}


LAB_ROUTES = (
    ApiRoute("GET", "labs", _list),
    ApiRoute("POST", "labs", _create),
    ApiRoute("POST", "import", _import),
    ApiRoute("POST", "import/virl-1x", _import_old),
    ApiRoute("GET", "populate_lab_tiles", _tiles),
    ApiRoute("GET", "labs/{lab}", lambda call: call.controller.shapes.lab(call.lab)),
    ApiRoute("PATCH", "labs/{lab}", _change),
    ApiRoute("DELETE", "labs/{lab}", lambda call: call.controller.delete(call.lab)),
    ApiRoute("PUT", "labs/{lab}/start", _start),
    ApiRoute("PUT", "labs/{lab}/stop", _stop),
    ApiRoute("PUT", "labs/{lab}/wipe", _wipe),
    ApiRoute("GET", "labs/{lab}/state", lambda call: call.controller.life.lab_state(call.lab)),
    ApiRoute("GET", "labs/{lab}/check_if_converged", lambda call: call.controller.life.is_converged(call.lab)),
    ApiRoute("GET", "labs/{lab}/lab_element_state", lambda call: call.controller.shapes.states(call.lab)),
    ApiRoute("GET", "labs/{lab}/events", lambda call: call.lab.events),
    ApiRoute("GET", "labs/{lab}/topology", _topology),
    ApiRoute(
        "GET",
        "labs/{lab}/download",
        lambda call: as_yaml(call.controller.shapes.download(call.lab, schema=call.controller.schema)),
    ),
    ApiRoute("GET", "labs/{lab}/pyats_testbed", lambda call: as_yaml(_testbed(call))),
    ApiRoute("GET", "labs/{lab}/layer3_addresses", _addresses),
    ApiRoute("GET", "labs/{lab}/simulation_stats", _statistics),
    ApiRoute("GET", "labs/{lab}/resource_pools", lambda _: []),
)
"""Calls about labs."""
