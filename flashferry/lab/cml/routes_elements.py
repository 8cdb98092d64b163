"""Calls about nodes, interfaces, links and annotations of a lab."""

from __future__ import annotations

from typing import Any

from starlette.responses import PlainTextResponse, Response

from flashferry.lab.cml.elements import Node, add_interfaces, add_link, new_id, note_mapping, note_tags, populate
from flashferry.lab.cml.routing import ApiRoute, Call
from flashferry.lab.cml.runtime import NodeState
from flashferry.lab.cml.shapes import console_key
from flashferry.lab.cml.texts import refused
from flashferry.lab.cml.topology import NODE_SETTINGS, check_definitions, check_node, files_of

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
    _check_keys(given)
    label = str(given.get("label"))
    check_definitions(given.get("node_definition"), given.get("image_definition"), label, definitions)
    node = Node(node_id=new_id(), label=label, node_definition=given["node_definition"])
    _put(call, node, given)
    call.lab.nodes[node.node_id] = node
    note_mapping(call.lab, node)
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
        node.configuration = list(files_of(given["configuration"], day0))
    node.settings.update({key: given[key] for key in NODE_SETTINGS if key in given})
    note_tags(call.lab, node)


def _check_keys(given: dict[str, Any]) -> None:
    if unknown := sorted(set(given) - _NODE_KEYS):
        raise refused("bad_request", why=f"additional properties are not allowed ({unknown[0]!r} was unexpected)")
    check_node(given)


def _change_node(call: Call) -> str:
    given = call.object
    _check_keys(given)
    image = given.get("image_definition", call.node.image_definition)
    if "configuration" in given or "image_definition" in given:
        check_definitions(call.node.node_definition, image, call.node.label, call.controller.definitions)
        _check_wiped(call, call.node)
    _put(call, call.node, given)
    note_mapping(call.lab, call.node)
    call.controller.life.note(call.lab, "CHANGE", "NODE", call.node.node_id)
    return call.node.node_id


def _check_wiped(call: Call, node: Node) -> None:
    if call.controller.life.state(call.lab, node) is not NodeState.DEFINED_ON_CORE:
        raise refused("change_while_running", what=f"Node {node.label}")


def _remove_node(call: Call) -> None:
    _check_wiped(call, call.node)
    for interface in call.node.interfaces:
        if (link := call.lab.link_at(interface)) is not None:
            del call.lab.links[link.link_id]
    del call.lab.nodes[call.node.node_id]
    note_tags(call.lab, next(iter(call.lab.nodes.values()), Node(node_id="", label="", node_definition="")))
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
    if (link := call.lab.link_at(interface)) is not None:
        del call.lab.links[link.link_id]
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
