"""Calls about labs as a whole."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from starlette.responses import PlainTextResponse, Response

from flashferry.lab.cml.controller import OUI, User
from flashferry.lab.cml.definitions import refused
from flashferry.lab.cml.elements import (
    Interface,
    Lab,
    Node,
    add_interfaces,
    add_link,
    new_id,
    note_mapping,
    note_tags,
    populate,
)
from flashferry.lab.cml.routing import ApiRoute, Call, as_yaml
from flashferry.lab.cml.runtime import NodeState
from flashferry.lab.cml.shapes import console_key
from flashferry.lab.cml.topology import NODE_SETTINGS, check_definitions, check_node, checked_title, files_of

_EXTRAS = ("autostart", "node_staging")
_TRAFFIC_BYTES_PER_S = 1500


def _check_only(given: dict[str, Any], known: Collection[str]) -> None:
    if unknown := sorted(set(given).difference(known)):
        raise refused("bad_request", why=f"additional properties are not allowed ({unknown[0]!r} was unexpected)")


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
    _check_only(given, known | set(_EXTRAS) if call.controller.version >= (2, 10) else known)
    return {key: given[key] for key in _EXTRAS if key in given}


def _start(call: Call) -> None:
    call.controller.life.start(call.lab, running=call.controller.counted())


def _then_observed(order: Callable[[Call], None]) -> Callable[[Call], None]:
    def handler(call: Call) -> None:
        order(call)
        call.controller.life.observe(call.lab)

    return handler


def _topology(call: Call) -> dict[str, Any]:
    excluded = call.query.get("exclude_configurations", "")
    configurations = {"true": "none", "false": "all"}.get(excluded.lower(), "main")
    return call.controller.shapes.topology(call.lab, schema=call.controller.schema, configurations=configurations)


def _download(call: Call) -> Response:
    return as_yaml(call.controller.shapes.download(call.lab, schema=call.controller.schema))


def _testbed(call: Call) -> Response:
    host = call.query.get("hostname") or call.request.headers.get("host", "localhost").partition(":")[0]
    return as_yaml(call.controller.shapes.testbed(call.lab, host=host))


def _addresses(call: Call) -> dict[str, Any]:
    switches, found = call.controller.switches, {}
    for node_id, node in call.lab.nodes.items():
        hidden = not switches.value("is_snooping") or node.label in switches.value("no_address")
        found[node_id] = call.controller.shapes.addresses(call.lab, node, hidden=hidden)
    return {node_id: each for node_id, each in found.items() if each["interfaces"]}


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
    ApiRoute("PUT", "labs/{lab}/start", _then_observed(_start)),
    ApiRoute("PUT", "labs/{lab}/stop", _then_observed(lambda call: call.controller.life.stop(call.lab))),
    ApiRoute("PUT", "labs/{lab}/wipe", _then_observed(lambda call: call.controller.life.wipe(call.lab))),
    ApiRoute("GET", "labs/{lab}/state", lambda call: call.controller.life.lab_state(call.lab)),
    ApiRoute("GET", "labs/{lab}/check_if_converged", lambda call: call.controller.life.is_converged(call.lab)),
    ApiRoute("GET", "labs/{lab}/lab_element_state", lambda call: call.controller.shapes.states(call.lab)),
    ApiRoute("GET", "labs/{lab}/events", lambda call: call.lab.events),
    ApiRoute("GET", "labs/{lab}/topology", _topology),
    ApiRoute("GET", "labs/{lab}/download", _download),
    ApiRoute("GET", "labs/{lab}/pyats_testbed", _testbed),
    ApiRoute("GET", "labs/{lab}/layer3_addresses", _addresses),
    ApiRoute("GET", "labs/{lab}/simulation_stats", _statistics),
    ApiRoute("GET", "labs/{lab}/resource_pools", lambda _: []),
)
"""Calls about labs."""

_HIGHEST_SLOT = 255

_NODE_KEYS = NODE_SETTINGS | {
    "label", "node_definition", "image_definition", "x", "y", "tags", "configuration",
}  # fmt: skip


def _nodes(call: Call) -> list[Any]:
    if not call.asks("data"):
        return list(call.lab.nodes)
    return [_as_json(call, node) for node in call.lab.nodes.values()]


def _as_json(call: Call, node: Node) -> dict[str, Any]:
    configurations = "none" if call.asks("exclude_configurations") else "all"
    return call.controller.shapes.node(
        call.lab, node, configurations=configurations, is_operational=call.asks("operational")
    )


def _add_node(call: Call) -> dict[str, str]:
    given, definitions = call.object, call.controller.definitions
    _check_only(given, _NODE_KEYS)
    check_node(given)
    label = str(given.get("label"))
    check_definitions(given.get("node_definition"), given.get("image_definition"), label, definitions)
    node = Node(node_id=new_id(), label=label, node_definition=given["node_definition"])
    _put(call, node, given)
    if call.asks("populate_interfaces"):
        populate(node, definitions.nodes[node.node_definition])
    call.controller.life.note(call.lab, "ADD", "NODE", node.node_id)
    return {"id": node.node_id}


def _put(call: Call, node: Node, given: dict[str, Any]) -> None:
    node.label = given.get("label", node.label)
    node.image_definition = given.get("image_definition", node.image_definition)
    node.x, node.y = given.get("x", node.x), given.get("y", node.y)
    if "tags" in given:
        node.tags = list(given["tags"] or ())
    if "configuration" in given:
        day0 = call.controller.definitions.nodes[node.node_definition].day0
        node.configuration = files_of(given["configuration"], day0)
    node.settings.update({key: given[key] for key in NODE_SETTINGS if key in given})
    call.lab.nodes[node.node_id] = node
    note_tags(call.lab)
    note_mapping(call.lab, node)


def _change_node(call: Call) -> str:
    given = call.object
    _check_only(given, _NODE_KEYS)
    check_node(given)
    image = given.get("image_definition", call.node.image_definition)
    if "configuration" in given or "image_definition" in given:
        check_definitions(call.node.node_definition, image, call.node.label, call.controller.definitions)
        _check_wiped(call, call.node)
    _put(call, call.node, given)
    call.controller.life.note(call.lab, "CHANGE", "NODE", call.node.node_id)
    return call.node.node_id


def _check_wiped(call: Call, node: Node) -> None:
    if call.controller.life.state(call.lab, node) is not NodeState.DEFINED_ON_CORE:
        raise refused("change_while_running", what=f"Node {node.label}")


def _unlink(lab: Lab, interface: Interface) -> None:
    if (link := lab.link_at(interface)) is not None:
        del lab.links[link.link_id]


def _remove_node(call: Call) -> None:
    _check_wiped(call, call.node)
    for interface in call.node.interfaces:
        _unlink(call.lab, interface)
    del call.lab.nodes[call.node.node_id]
    note_tags(call.lab)
    call.controller.life.note(call.lab, "REMOVE", "NODE", call.node.node_id)


def _node_state(call: Call) -> dict[str, str]:
    return {"label": call.node.label, "state": call.controller.life.state(call.lab, call.node)}


def _log(call: Call) -> object:
    text = call.controller.life.view(call.lab, call.node).console
    if (lines := call.query.get("lines", "")).isdecimal():
        text = "\n".join(text.splitlines()[-int(lines) :])
    shape = call.controller.switches.value("console_log_as")
    if shape == "plain":
        return PlainTextResponse(text)
    return {"object": {"log": text}, "lines": text.splitlines()}.get(shape, text)


def _console(call: Call) -> str:
    line = call.query.get("line", "0")
    return console_key(call.node, int(line) if line.isdecimal() else 0)


def _interfaces(call: Call) -> list[dict[str, Any]]:
    return [call.controller.shapes.interface(call.lab, each) for each in call.lab.interfaces()]


def _add_interface(call: Call) -> object:
    given = call.object
    node = call.lab.node(str(given.get("node")))
    slot = given.get("slot")
    if slot is not None and not (isinstance(slot, int) and 0 <= slot <= _HIGHEST_SLOT):
        raise refused("bad_request", why=f"slot: expected 0..{_HIGHEST_SLOT}, found {slot!r}")
    made = add_interfaces(node, call.controller.definitions.nodes[node.node_definition], slot)
    shown = [call.controller.shapes.interface(call.lab, each) for each in made]
    return shown[0] if slot is None else shown


def _remove_interface(call: Call) -> None:
    interface = call.lab.interface(call.names["interface"])
    _unlink(call.lab, interface)
    call.lab.nodes[interface.node_id].interfaces.remove(interface)


def _links(call: Call) -> list[Any]:
    if not call.asks("data"):
        return list(call.lab.links)
    return [call.controller.shapes.link(call.lab, link) for link in call.lab.links.values()]


def _add_link(call: Call) -> dict[str, Any]:
    given = call.object
    link = add_link(call.lab, call.lab.interface(given.get("src_int")), call.lab.interface(given.get("dst_int")))
    call.controller.life.note(call.lab, "ADD", "LINK", link.link_id)
    return call.controller.shapes.link(call.lab, link)


def _remove_link(call: Call) -> None:
    del call.lab.links[call.link.link_id]
    call.controller.life.note(call.lab, "REMOVE", "LINK", call.link.link_id)


def _condition(call: Call) -> dict[str, Any]:
    return call.controller.conditions.shown(call.link, is_operational=call.asks("operational"))


def _set_condition(call: Call) -> dict[str, Any]:
    stored = call.controller.conditions.change(call.lab, call.link, call.json)
    call.controller.life.note(call.lab, "CHANGE", "LINK", call.link.link_id, {"condition": call.link.condition})
    return stored


def _start_capture(call: Call) -> dict[str, Any]:
    is_up = call.controller.life.link_state(call.lab, call.link) == "STARTED"
    has_link_key = call.controller.version >= (2, 10)
    return call.controller.captures.start(call.lab, call.link, call.json, is_up=is_up, has_link_key=has_link_key)


def _pcap(call: Call) -> Response:
    key = call.names["key"]
    for lab in call.controller.seen_by(call.user, is_all=True):
        for link in lab.links.values():
            if link.capture is not None and link.capture.key == key:
                content = call.controller.captures.content(lab, link)
                return Response(content, media_type="application/vnd.tcpdump.pcap")
    raise refused("no_capture", link_id=key)


def _add_annotation(call: Call) -> dict[str, Any]:
    given = call.object
    if str(given.get("type")) not in {"text", "line", "ellipse", "rectangle"}:
        raise refused("bad_request", why="annotation: expected a type")
    made = new_id()
    call.lab.annotations[made] = dict(given)
    return {"id": made, **given}


def _annotation(call: Call) -> dict[str, Any]:
    if (found := call.lab.annotations.get(call.names["annotation"])) is None:
        raise refused("annotation_not_found", annotation_id=call.names["annotation"])
    return found


def _change_annotation(call: Call) -> dict[str, Any]:
    held = _annotation(call)
    held.update(call.object)
    return {"id": call.names["annotation"], **held}


def _remove_annotation(call: Call) -> None:
    _annotation(call)
    del call.lab.annotations[call.names["annotation"]]


_NODE = "labs/{lab}/nodes/{node}"
_LINK = "labs/{lab}/links/{link}"

ELEMENT_ROUTES = (
    ApiRoute("GET", "labs/{lab}/nodes", _nodes),
    ApiRoute("POST", "labs/{lab}/nodes", _add_node),
    ApiRoute("GET", _NODE, lambda call: _as_json(call, call.node)),
    ApiRoute("PATCH", _NODE, _change_node),
    ApiRoute("DELETE", _NODE, _remove_node),
    ApiRoute("GET", f"{_NODE}/state", _node_state),
    ApiRoute("PUT", f"{_NODE}/state/stop", lambda call: call.controller.life.stop(call.lab, call.node)),
    ApiRoute("GET", f"{_NODE}/consoles/{{console}}/log", _log),
    ApiRoute("GET", f"{_NODE}/keys/console", _console),
    ApiRoute("GET", "labs/{lab}/interfaces", _interfaces),
    ApiRoute("POST", "labs/{lab}/interfaces", _add_interface),
    ApiRoute("DELETE", "labs/{lab}/interfaces/{interface}", _remove_interface),
    ApiRoute("GET", "labs/{lab}/links", _links),
    ApiRoute("POST", "labs/{lab}/links", _add_link),
    ApiRoute("DELETE", _LINK, _remove_link),
    ApiRoute("GET", f"{_LINK}/condition", _condition),
    ApiRoute("PATCH", f"{_LINK}/condition", _set_condition),
    ApiRoute("DELETE", f"{_LINK}/condition", lambda call: call.controller.conditions.remove(call.lab, call.link)),
    ApiRoute("PUT", f"{_LINK}/capture/start", _start_capture),
    ApiRoute("PUT", f"{_LINK}/capture/stop", lambda call: call.controller.captures.stop(call.lab, call.link)),
    ApiRoute("GET", f"{_LINK}/capture/status", lambda call: call.controller.captures.status(call.lab, call.link)),
    ApiRoute("GET", f"{_LINK}/capture/key", lambda call: call.controller.captures.key(call.link)),
    ApiRoute("GET", "pcap/{key}", _pcap),
    ApiRoute("POST", "labs/{lab}/annotations", _add_annotation),
    ApiRoute("PATCH", "labs/{lab}/annotations/{annotation}", _change_annotation),
    ApiRoute("DELETE", "labs/{lab}/annotations/{annotation}", _remove_annotation),
)
"""Calls about what a lab is made of."""

_SMART_SERVER = "https://smartreceiver.cisco.com/licservice/license"
_NEVER = "2036-01-01 00:00:00"


def _status(call: Call) -> dict[str, Any]:
    is_licensed = call.controller.is_licensed
    done, expires = _times("SUCCESS" if is_licensed else "FAILED"), _NEVER if is_licensed else None
    registration = {
        "status": "COMPLETED" if is_licensed else "NOT_REGISTERED",
        "expires": expires,
        **dict.fromkeys(("smart_account", "virtual_account"), "Lab" if is_licensed else None),
        "instance_name": "cml-standin",
        "register_time": done,
        "renew_time": _times("FAILED"),
    }
    authorization = {
        "status": "IN_COMPLIANCE" if is_licensed else "EVAL_EXPIRED",
        "renew_time": done,
        "expires": expires,
    }
    feature = {
        "id": "regid.2019-10.com.cisco.CML_PERSONAL,1.0_standin",
        "name": "CML - Personal License",
        "description": "Stands in for a licence",
        "in_use": call.controller.counted(),
        "status": "IN_COMPLIANCE" if is_licensed else "INIT",
        "version": "1.0",
        "min": 0,
        "max": call.controller.switches.value("quota"),
    }
    return {
        "udi": call.controller.compute_id,
        "registration": registration,
        "authorization": authorization,
        "reservation_mode": False,
        "transport": {"ssms": _SMART_SERVER, "proxy": {"server": None, "port": None}, "default_ssms": _SMART_SERVER},
        "features": [feature],
        "product_license": {"active": "CML_Personal", "is_enterprise": False},
    }


def _times(success: str) -> dict[str, str | None]:
    return {**dict.fromkeys(("succeeded", "attempted", "scheduled", "status", "failure")), "success": success}


def _register(call: Call) -> None:
    if not call.object.get("token"):
        raise refused("bad_request", why="registration wants a token")
    call.controller.is_registered = True


def _deregister(call: Call) -> None:
    call.controller.is_registered = False


LICENCE_ROUTES = (
    ApiRoute("GET", "licensing", _status),
    ApiRoute("POST", "licensing/registration", _register),
    ApiRoute("DELETE", "licensing/deregistration", _deregister),
)
"""Calls about the licence."""

_MEMORY_BYTES = 128 * 2**30
_DISK_BYTES = 500 * 10**9
_CPUS = 32
_LONGEST_PART_HEAD = 4096


def _information(call: Call) -> object:
    version, is_ready = (call.controller.switches.value(name) for name in ("version", "is_ready"))
    return {"version": version, "ready": is_ready, "allow_ssh_pubkey_auth": False, "oui": OUI}


def _log_in(call: Call) -> object:
    given = call.object
    return call.controller.access.token(given.get("username"), given.get("password"))


def _own_account(call: Call) -> object:
    return {"id": call.user.user_id, "username": call.user.username, "admin": call.user.is_admin}


def _log_out(call: Call) -> object:
    call.controller.access.revoke(call.request.headers.get("authorization"))
    return True


def _health(call: Call) -> object:
    controller = call.controller
    is_ready = bool(controller.switches.value("is_ready"))
    compute = {
        **dict.fromkeys(("kvm_vmx_enabled", "enough_cpus", "refplat_images_available", "is_controller"), True),
        **dict.fromkeys(("lld_connected", "valid"), is_ready),
        "hostname": "cml-standin",
    }
    return {
        "valid": is_ready and controller.is_licensed,
        "computes": {controller.compute_id: compute},
        "is_licensed": controller.is_licensed,
        "is_enterprise": False,
        "controller": dict.fromkeys(("core_connected", "nodes_loaded", "images_loaded", "valid"), True),
    }


def _stats(call: Call) -> object:
    controller = call.controller
    used = _MEMORY_BYTES * controller.switches.value("memory_used_percent") // 100
    figures = {
        "cpu": {"load": [0.5, 0.4, 0.3], "count": _CPUS, "percent": 3.0},
        "memory": {"total": _MEMORY_BYTES, "free": _MEMORY_BYTES - used, "used": used},
        "disk": {"total": _DISK_BYTES, "free": _DISK_BYTES // 2, "used": _DISK_BYTES // 2},
    }
    nodes = {"running_nodes": controller.counted(), "total_nodes": sum(len(lab.nodes) for lab in controller.labs())}
    compute = {"hostname": "cml-standin", "is_controller": True, "stats": {**figures, "dominfo": nodes}}
    return {"computes": {controller.compute_id: compute}, "all": figures, "controller": {"disk": figures["disk"]}}


def _diagnostics(call: Call) -> object:
    controller, category = call.controller, call.names["category"]
    running, quota = controller.counted(), controller.switches.value("quota")
    shown: dict[str, Any] = {
        "licensing": {"quota": quota, "started": running, "user_quota": quota, "user_started": running},
        "computes": {controller.compute_id: {"identifier": "cml-standin", "is_connected": True}},
        "labs": {
            lab.lab_id: {"title": lab.title, "state": controller.life.lab_state(lab)} for lab in controller.labs()
        },
        "lab_events": {lab.lab_id: lab.events for lab in controller.labs()},
        "node_launch_queue": [],
        "services": {},
        "node_definitions": {key: {} for key in controller.definitions.nodes},
        "user_list": [_user_json(call, user) for user in controller.access.users],
        "startup_scheduler": {},
    }
    if category not in shown:
        raise refused("not_found", what=category)
    return shown[category]


def _images_of(call: Call) -> object:
    requested = call.names["definition"]
    if requested not in call.controller.definitions.nodes:
        raise refused("definition_not_found", definition_id=requested)
    images = call.controller.definitions.images.values()
    return [each for each in images if each["node_definition_id"] == requested]


def _add_image_definition(call: Call) -> object:
    call.controller.definitions.add_image(_loaded(call))
    return "Success"


def _remove_image_definition(call: Call) -> None:
    requested = call.names["definition"]
    if any(node.image_definition == requested for lab in call.controller.labs() for node in lab.nodes.values()):
        raise refused("in_use", what=requested)
    call.controller.definitions.remove_image(requested)


def _loaded(call: Call) -> Any:
    try:
        return YAML(typ="safe", pure=True).load(call.text)
    except YAMLError as error:
        raise refused("bad_definition", why=f"no YAML: {str(error).splitlines()[0]}") from error


def _upload(call: Call) -> object:
    """Take an image file: of a form with the field `field0`, or the bare body."""
    path = call.controller.definitions.path_for(call.request.headers.get("x-original-file-name"))
    spool = call.spool
    if spool is None or not spool.stat().st_size:
        raise refused("bad_request", why="there is no file")
    boundary = re.search(r'boundary="?([^";]+)', call.request.headers.get("content-type", ""))
    if boundary is None:
        shutil.copyfile(spool, path)
    else:
        _copy_part(spool, path, boundary.group(1).encode())
    return "Success"


def _copy_part(spool: Path, path: Path, boundary: bytes) -> None:
    """Copy what the first and only part of a form holds (RFC 7578)."""
    tail = b"\r\n--" + boundary + b"--"
    with spool.open("rb") as source:
        head = source.read(_LONGEST_PART_HEAD)
        begins = head.find(b"\r\n\r\n") + 4
        source.seek(-min(spool.stat().st_size, len(tail) + 8), 2)
        ends = source.seek(0, 1) + source.read().rfind(tail)
        if begins < 4 or ends < begins or b'name="field0"' not in head[:begins]:
            raise refused("bad_request", why="expected a form with the field field0")
        source.seek(begins)
        left = ends - begins
        with path.open("wb") as target:
            while left and (piece := source.read(min(left, 2**20))):
                target.write(piece)
                left -= len(piece)


def _remove_file(call: Call) -> object:
    call.controller.definitions.remove_file(call.names["file"])
    return "Success"


def _connectors(call: Call) -> object:
    is_snooping = bool(call.controller.switches.value("is_snooping"))
    return [_connector(key, each, is_snooping=is_snooping) for key, each in call.controller.connectors.items()]


def _connector(key: str, held: dict[str, Any], *, is_snooping: bool) -> dict[str, Any]:
    networks = ["192.168.255.1/24"] if held["forwarding"] == "NAT" else []
    now = {"forwarding": held["forwarding"], "label": held["label"], "mtu": 1500, "exists": True, "enabled": True}
    flags = {"allowed": True, "protected": False, "snooped": is_snooping}
    return {"id": key, "tags": [held["label"]], **flags, **held, "operational": {**now, "ip_networks": networks}}


def _user_json(call: Call, user: User) -> dict[str, Any]:
    return {
        "id": user.user_id,
        "username": user.username,
        **dict.fromkeys(("fullname", "description", "email"), ""),
        "admin": user.is_admin,
        "groups": [],
        "labs": [lab.lab_id for lab in call.controller.labs() if lab.owner_id == user.user_id],
        "resource_pool": None,
    }


def _computes(call: Call) -> object:
    controller = call.controller
    host: dict[str, Any] = {
        "id": controller.compute_id,
        "hostname": "cml-standin",
        "server_address": "127.0.0.1",
        **dict.fromkeys(("is_connector", "is_simulator", "is_synced"), True),
        "is_connected": bool(controller.switches.value("is_ready")),
        "admission_state": "READY",
        "node_counts": {**dict.fromkeys(("deployed", "running"), controller.counted()), "orphans": 0},
    }
    if controller.version < (2, 10):
        host["nodes"] = [node_id for lab in controller.labs() for node_id in lab.nodes]
    return [host]


SYSTEM_ROUTES = (
    ApiRoute("GET", "system_information", _information, is_open=True),
    ApiRoute("POST", "authenticate", _log_in, is_open=True),
    # Whether 2.10 dropped the older of the two is not confirmed; older clients still ask it.
    ApiRoute("GET", "authok", lambda _: "OK"),
    ApiRoute("GET", "authentication", _own_account, since=(2, 10)),
    ApiRoute("DELETE", "logout", _log_out),
    ApiRoute("GET", "system_health", _health),
    ApiRoute("GET", "system_stats", _stats),
    ApiRoute("GET", "diagnostics/{category}", _diagnostics),
    ApiRoute("GET", "node_definitions", lambda call: call.controller.definitions.nodes_as_json()),
    ApiRoute("GET", "node_definitions/{definition}/image_definitions", _images_of),
    ApiRoute("GET", "image_definitions", lambda call: list(call.controller.definitions.images.values())),
    ApiRoute("POST", "image_definitions", _add_image_definition),
    ApiRoute("DELETE", "image_definitions/{definition}", _remove_image_definition),
    ApiRoute("POST", "images/upload", _upload),
    ApiRoute("GET", "list_image_definition_drop_folder", lambda call: call.controller.definitions.files),
    ApiRoute("DELETE", "images/manage/{file}", _remove_file),
    ApiRoute("GET", "system/external_connectors", _connectors),
    ApiRoute("GET", "system/compute_hosts", _computes),
    ApiRoute("GET", "users", lambda call: [_user_json(call, user) for user in call.controller.access.users]),
    ApiRoute("GET", "resource_pools", lambda _: []),
)
"""Calls about the controller."""
