"""Calls about labs as a whole."""

from __future__ import annotations

from typing import Any

from flashferry.lab.cml.routing import Answer, Call, Route, done, said, written
from flashferry.lab.cml.texts import refused
from flashferry.lab.cml.topology import checked_title

_CHANGEABLE = ("title", "description", "notes")
_EXTRAS = ("autostart", "node_staging")
_DESK_BYTES_PER_S = 1500


def _list(call: Call) -> Answer:
    return said([lab.lab_id for lab in call.controller.seen_by(call.user, is_all=call.asks("show_all"))])


def _create(call: Call) -> Answer:
    given = call.object
    extras = _checked_extras(call, given)
    lab = call.controller.create(
        call.user,
        title=given.get("title"),
        description=str(given.get("description") or ""),
        notes=str(given.get("notes") or ""),
    )
    lab.extras.update(extras)
    return said(call.controller.shapes.lab(lab))


def _import(call: Call) -> Answer:
    lab = call.controller.take(call.text, call.user, title=call.request.query.get("title"))
    return said({"id": lab.lab_id, "warnings": []})


def _import_old(call: Call) -> Answer:
    lab = call.controller.create(call.user, title=call.request.query.get("title"))
    return said({"id": lab.lab_id, "warnings": ["The stand-in reads nothing of VIRL 1.x: the lab is empty."]})


def _show(call: Call) -> Answer:
    return said(call.controller.shapes.lab(call.lab))


def _change(call: Call) -> Answer:
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
    return said(call.controller.shapes.lab(call.lab))


def _checked_extras(call: Call, given: dict[str, Any]) -> dict[str, Any]:
    known = {*_CHANGEABLE, "owner", "groups", "associations"}
    known |= set(_EXTRAS) if call.controller.version >= (2, 10) else set()
    if unknown := sorted(set(given) - known):
        raise refused("bad_request", why=f"additional properties are not allowed ({unknown[0]!r} was unexpected)")
    return {key: given[key] for key in _EXTRAS if key in given}


def _delete(call: Call) -> Answer:
    call.controller.delete(call.lab)
    return done()


def _start(call: Call) -> Answer:
    call.controller.life.start(call.lab, running=call.controller.counted())
    return _touched(call)


def _stop(call: Call) -> Answer:
    call.controller.life.stop(call.lab)
    return _touched(call)


def _wipe(call: Call) -> Answer:
    call.controller.life.wipe(call.lab)
    return _touched(call)


def _touched(call: Call) -> Answer:
    call.controller.life.observe(call.lab)
    return done()


def _state(call: Call) -> Answer:
    return said(call.controller.life.lab_state(call.lab))


def _is_converged(call: Call) -> Answer:
    return said(call.controller.life.is_converged(call.lab))


def _element_states(call: Call) -> Answer:
    return said(call.controller.shapes.states(call.lab))


def _events(call: Call) -> Answer:
    return said(call.lab.events)


def _topology(call: Call) -> Answer:
    excluded = call.request.query.get("exclude_configurations", "")
    configurations = {"true": "none", "false": "all"}.get(excluded.lower(), "main")
    shapes = call.controller.shapes
    return said(shapes.topology(call.lab, schema=call.controller.schema, configurations=configurations))


def _download(call: Call) -> Answer:
    return written(call.controller.shapes.download(call.lab, schema=call.controller.schema))


def _testbed(call: Call) -> Answer:
    host = call.request.query.get("hostname") or call.request.headers.get("host", "localhost").partition(":")[0]
    return written(call.controller.shapes.testbed(call.lab, host=host))


def _addresses(call: Call) -> Answer:
    return said(
        {
            node_id: addresses_of(call, node_id)
            for node_id in call.lab.nodes
            if addresses_of(call, node_id)["interfaces"]
        }
    )


def addresses_of(call: Call, node_id: str) -> dict[str, Any]:
    """Return what was seen of one node's addresses, under the switches."""
    switches, node = call.controller.switches, call.lab.nodes[node_id]
    hidden = not switches.value("is_snooping") or node.label in switches.value("no_address")
    return call.controller.shapes.addresses(call.lab, node, hidden=hidden)


def _statistics(call: Call) -> Answer:
    life, grown = call.controller.life, int(call.controller.uptime_s()) * _DESK_BYTES_PER_S
    nodes = {
        key: {"cpu_usage": 1.0, "block0_rd_bytes": grown, "block0_wr_bytes": grown}
        for key, node in call.lab.nodes.items()
        if life.state(call.lab, node).is_running
    }
    links = {
        key: {"readbytes": grown, "readpackets": grown // 100, "writebytes": grown, "writepackets": grown // 100,
              "drops": 0}
        for key, link in call.lab.links.items()
        if life.link_state(call.lab, link) == "STARTED"
    }  # fmt: skip
    return said({"nodes": nodes, "links": links})


def _tiles(call: Call) -> Answer:
    call.controller.expire_gone()
    return said({"lab_tiles": call.controller.tiles(call.user)})


def _mappings(call: Call) -> Answer:
    labels = {str(each["device_name"]): str(each["label"]) for each in call.controller.connectors.values()}
    return said(
        [
            {"key": key, "device_name": bridge, "label": labels.get(bridge or ""), "tags": [], "allowed": True}
            for key, bridge in call.lab.mappings.items()
        ]
    )


def _change_mappings(call: Call) -> Answer:
    bridges = {each["device_name"] for each in call.controller.connectors.values()} | {None}
    given = call.json
    if not isinstance(given, list):
        raise refused("bad_request", why="expected a list of mappings")
    for each in given:
        if not isinstance(each, dict) or "key" not in each or each.get("device_name") not in bridges:
            raise refused("bad_request", why=f"no mapping: {each!r}")
        call.lab.mappings[str(each["key"])] = each.get("device_name")
    return _mappings(call)


def _nothing(_: Call) -> Answer:
    return said([])


def _associations(_: Call) -> Answer:
    return said({"groups": [], "users": []})


def _built(call: Call) -> Answer:
    for node in call.lab.nodes.values():
        definition = call.controller.definitions.nodes[node.node_definition]
        if not node.configuration and definition.has_loopback:
            node.configuration = [(definition.day0, f"hostname {node.label}\nend\n")]
    return done()


ROUTES = (
    Route("GET", "labs", _list),
    Route("POST", "labs", _create),
    Route("POST", "import", _import),
    Route("POST", "import/virl-1x", _import_old),
    Route("GET", "populate_lab_tiles", _tiles),
    Route("GET", "labs/{lab}", _show),
    Route("PATCH", "labs/{lab}", _change),
    Route("DELETE", "labs/{lab}", _delete),
    Route("PUT", "labs/{lab}/start", _start),
    Route("PUT", "labs/{lab}/stop", _stop),
    Route("PUT", "labs/{lab}/wipe", _wipe),
    Route("GET", "labs/{lab}/state", _state),
    Route("GET", "labs/{lab}/check_if_converged", _is_converged),
    Route("GET", "labs/{lab}/lab_element_state", _element_states),
    Route("GET", "labs/{lab}/events", _events),
    Route("GET", "labs/{lab}/topology", _topology),
    Route("GET", "labs/{lab}/download", _download),
    Route("GET", "labs/{lab}/pyats_testbed", _testbed),
    Route("GET", "labs/{lab}/layer3_addresses", _addresses),
    Route("DELETE", "labs/{lab}/layer3_addresses", _touched),
    Route("GET", "labs/{lab}/simulation_stats", _statistics),
    Route("GET", "labs/{lab}/connector_mappings", _mappings),
    Route("PATCH", "labs/{lab}/connector_mappings", _change_mappings),
    Route("GET", "labs/{lab}/resource_pools", _nothing),
    Route("GET", "labs/{lab}/associations", _associations),
    Route("PATCH", "labs/{lab}/associations", _associations),
    Route("GET", "labs/{lab}/bootstrap", _built),
)
"""Calls about labs."""
