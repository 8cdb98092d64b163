"""Calls about nodes, interfaces, links and annotations of a lab."""

from __future__ import annotations

from typing import Any

from flashferry.lab.cml.elements import (
    Interface,
    Node,
    add_interfaces,
    add_link,
    new_id,
    note_mapping,
    note_tags,
    populate,
)
from flashferry.lab.cml.pcap import decoded
from flashferry.lab.cml.routes_labs import addresses_of
from flashferry.lab.cml.routing import Answer, Call, Route, done, said
from flashferry.lab.cml.runtime import NodeState
from flashferry.lab.cml.shapes import console_key
from flashferry.lab.cml.texts import refused
from flashferry.lab.cml.topology import NODE_SETTINGS, check_definitions, check_node, files_of

_HIGHEST_SLOT = 255
_PCAP_TYPE = "application/vnd.tcpdump.pcap"
_NODE_KEYS = NODE_SETTINGS | {
    "label", "node_definition", "image_definition", "x", "y", "tags", "configuration",
}  # fmt: skip


def _nodes(call: Call) -> Answer:
    if not call.asks("data"):
        return said(list(call.lab.nodes))
    return said([_told(call, node) for node in call.lab.nodes.values()])


def _told(call: Call, node: Node) -> dict[str, Any]:
    configurations = "none" if call.asks("exclude_configurations") else "all"
    return call.controller.shapes.node(
        call.lab, node, configurations=configurations, is_operational=call.asks("operational")
    )


def _add_node(call: Call) -> Answer:
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
    return said({"id": node.node_id})


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


def _node(call: Call) -> Answer:
    return said(_told(call, call.node))


def _change_node(call: Call) -> Answer:
    given = call.object
    _check_keys(given)
    image = given.get("image_definition", call.node.image_definition)
    if "configuration" in given or "image_definition" in given:
        check_definitions(call.node.node_definition, image, call.node.label, call.controller.definitions)
        _check_wiped(call, call.node)
    _put(call, call.node, given)
    note_mapping(call.lab, call.node)
    call.controller.life.note(call.lab, "CHANGE", "NODE", call.node.node_id)
    return said(call.node.node_id)


def _check_wiped(call: Call, node: Node) -> None:
    if call.controller.life.state(call.lab, node) is not NodeState.DEFINED_ON_CORE:
        raise refused("change_while_running", what=f"Node {node.label}")


def _remove_node(call: Call) -> Answer:
    _check_wiped(call, call.node)
    for interface in call.node.interfaces:
        if (link := call.lab.link_at(interface)) is not None:
            del call.lab.links[link.link_id]
    del call.lab.nodes[call.node.node_id]
    note_tags(call.lab, next(iter(call.lab.nodes.values()), Node(node_id="", label="", node_definition="")))
    call.controller.life.note(call.lab, "REMOVE", "NODE", call.node.node_id)
    return done()


def _node_state(call: Call) -> Answer:
    return said({"label": call.node.label, "state": call.controller.life.state(call.lab, call.node)})


def _node_is_converged(call: Call) -> Answer:
    return said(call.controller.life.is_converged(call.lab, [call.node]))


def _start_node(call: Call) -> Answer:
    call.controller.life.start(call.lab, call.node, running=call.controller.counted())
    return done()


def _stop_node(call: Call) -> Answer:
    call.controller.life.stop(call.lab, call.node)
    return done()


def _wipe_node(call: Call) -> Answer:
    call.controller.life.wipe(call.lab, call.node)
    return done()


def _extract(call: Call) -> Answer:
    if not call.controller.life.state(call.lab, call.node).is_running:
        raise refused("bad_request", why=f"node {call.node.label} does not run")
    return done()


def _log(call: Call) -> Answer:
    text = call.controller.life.view(call.lab, call.node).console
    if (lines := call.request.query.get("lines", "")).isdecimal():
        text = "\n".join(text.splitlines()[-int(lines) :])
    shape = call.controller.switches.value("console_log_as")
    if shape == "plain":
        return Answer(body=text.encode(), content_type="text/plain; charset=utf-8")
    return said({"object": {"log": text}, "lines": text.splitlines()}.get(shape, text))


def _console(call: Call) -> Answer:
    line = call.request.query.get("line", "0")
    return said(console_key(call.node, int(line) if line.isdecimal() else 0))


def _screen(call: Call) -> Answer:
    return said(console_key(call.node, 0xFFFF))


def _node_addresses(call: Call) -> Answer:
    return said(addresses_of(call, call.node.node_id))


def _forget_addresses(call: Call) -> Answer:
    call.controller.life.observe(call.lab)
    return done()


def _node_interfaces(call: Call) -> Answer:
    if not call.asks("data"):
        return said([each.interface_id for each in call.node.interfaces])
    return said([call.controller.shapes.interface(call.lab, each) for each in call.node.interfaces])


def _interfaces(call: Call) -> Answer:
    return said([call.controller.shapes.interface(call.lab, each) for each in call.lab.interfaces()])


def _add_interface(call: Call) -> Answer:
    given = call.object
    node = call.lab.node(str(given.get("node")))
    definition = call.controller.definitions.nodes[node.node_definition]
    slot = given.get("slot")
    if slot is not None and not (isinstance(slot, int) and 0 <= slot <= _HIGHEST_SLOT):
        raise refused("bad_request", why=f"slot: expected 0..{_HIGHEST_SLOT}, found {slot!r}")
    made = add_interfaces(node, definition, slot)
    told = [call.controller.shapes.interface(call.lab, each) for each in made]
    return said(told[0] if slot is None else told)


def _interface_of(call: Call) -> Interface:
    return call.lab.interface(call.names["interface"])


def _interface(call: Call) -> Answer:
    return said(call.controller.shapes.interface(call.lab, _interface_of(call)))


def _change_interface(call: Call) -> Answer:
    interface = _interface_of(call)
    interface.mac_address = str(call.object.get("mac_address") or interface.mac_address)
    return said(call.controller.shapes.interface(call.lab, interface))


def _remove_interface(call: Call) -> Answer:
    interface = _interface_of(call)
    if (link := call.lab.link_at(interface)) is not None:
        del call.lab.links[link.link_id]
    call.lab.nodes[interface.node_id].interfaces.remove(interface)
    return done()


def _links(call: Call) -> Answer:
    if not call.asks("data"):
        return said(list(call.lab.links))
    return said([call.controller.shapes.link(call.lab, link) for link in call.lab.links.values()])


def _add_link(call: Call) -> Answer:
    given = call.object
    link = add_link(call.lab, call.lab.interface(given.get("src_int")), call.lab.interface(given.get("dst_int")))
    call.controller.life.note(call.lab, "ADD", "LINK", link.link_id)
    return said(call.controller.shapes.link(call.lab, link))


def _link(call: Call) -> Answer:
    return said(call.controller.shapes.link(call.lab, call.link))


def _remove_link(call: Call) -> Answer:
    del call.lab.links[call.link.link_id]
    call.controller.life.note(call.lab, "REMOVE", "LINK", call.link.link_id)
    return done()


def _link_state(call: Call) -> Answer:
    return said({"state": call.controller.life.link_state(call.lab, call.link)})


def _link_up(call: Call) -> Answer:
    call.link.is_down = False
    return done()


def _link_down(call: Call) -> Answer:
    call.link.is_down = True
    return done()


def _link_is_converged(_: Call) -> Answer:
    return said(value=True)


def _condition(call: Call) -> Answer:
    return said(call.controller.conditions.shown(call.link, is_operational=call.asks("operational")))


def _set_condition(call: Call) -> Answer:
    told = call.controller.conditions.change(call.lab, call.link, call.json)
    call.controller.life.note(call.lab, "CHANGE", "LINK", call.link.link_id, {"condition": call.link.condition})
    return said(told)


def _remove_condition(call: Call) -> Answer:
    call.controller.conditions.remove(call.lab, call.link)
    return done()


def _start_capture(call: Call) -> Answer:
    is_up = call.controller.life.link_state(call.lab, call.link) == "STARTED"
    return said(
        call.controller.captures.start(
            call.lab, call.link, call.json, is_up=is_up, has_link_key=call.controller.version >= (2, 10)
        )
    )


def _stop_capture(call: Call) -> Answer:
    call.controller.captures.stop(call.lab, call.link)
    return done()


def _capture_status(call: Call) -> Answer:
    return said(call.controller.captures.status(call.lab, call.link))


def _capture_key(call: Call) -> Answer:
    return said(call.controller.captures.key(call.link))


def _captured(call: Call) -> bytes:
    key = call.names["key"]
    for lab in call.controller.seen_by(call.user, is_all=True):
        for link in lab.links.values():
            if link.capture is not None and link.capture.key == key:
                return call.controller.captures.content(lab, link)
    raise refused("no_capture", link_id=key)


def _pcap(call: Call) -> Answer:
    return Answer(body=_captured(call), content_type=_PCAP_TYPE)


def _packets(call: Call) -> Answer:
    return said(decoded(_captured(call)))


def _packet(call: Call) -> Answer:
    packets, wanted = decoded(_captured(call)), call.names["packet"]
    if not wanted.isdecimal() or not 1 <= int(wanted) <= len(packets):
        raise refused("not_found", what=f"packet {wanted}")
    return said(packets[int(wanted) - 1])


def _add_annotation(call: Call) -> Answer:
    given = call.object
    if str(given.get("type")) not in {"text", "line", "ellipse", "rectangle"}:
        raise refused("bad_request", why="annotation: expected a type")
    made = new_id()
    call.lab.annotations[made] = dict(given)
    return said({"id": made, **given})


def _annotations(call: Call) -> Answer:
    return said([{"id": key, **each} for key, each in call.lab.annotations.items()])


def _annotation_of(call: Call) -> dict[str, Any]:
    held = call.lab.smart_annotations if "smart_annotations" in call.request.path else call.lab.annotations
    if (found := held.get(call.names["annotation"])) is None:
        raise refused("annotation_not_found", annotation_id=call.names["annotation"])
    return found


def _change_annotation(call: Call) -> Answer:
    held = _annotation_of(call)
    held.update(call.object)
    return said({"id": call.names["annotation"], **held})


def _remove_annotation(call: Call) -> Answer:
    _annotation_of(call)
    call.lab.annotations.pop(call.names["annotation"], None)
    call.lab.smart_annotations.pop(call.names["annotation"], None)
    return done()


_NODE = "labs/{lab}/nodes/{node}"
_LINK = "labs/{lab}/links/{link}"
_PORT = "labs/{lab}/interfaces/{interface}"

ROUTES = (
    Route("GET", "labs/{lab}/nodes", _nodes),
    Route("POST", "labs/{lab}/nodes", _add_node),
    Route("GET", _NODE, _node),
    Route("PATCH", _NODE, _change_node),
    Route("DELETE", _NODE, _remove_node),
    Route("GET", f"{_NODE}/state", _node_state),
    Route("GET", f"{_NODE}/check_if_converged", _node_is_converged),
    Route("PUT", f"{_NODE}/state/start", _start_node),
    Route("PUT", f"{_NODE}/state/stop", _stop_node),
    Route("PUT", f"{_NODE}/wipe_disks", _wipe_node),
    Route("PUT", f"{_NODE}/extract_configuration", _extract),
    Route("GET", f"{_NODE}/consoles/{{console}}/log", _log),
    Route("GET", f"{_NODE}/keys/console", _console),
    Route("GET", f"{_NODE}/keys/vnc", _screen),
    Route("GET", f"{_NODE}/layer3_addresses", _node_addresses),
    Route("DELETE", f"{_NODE}/layer3_addresses", _forget_addresses),
    Route("GET", f"{_NODE}/interfaces", _node_interfaces),
    Route("GET", "labs/{lab}/interfaces", _interfaces),
    Route("POST", "labs/{lab}/interfaces", _add_interface),
    Route("GET", _PORT, _interface),
    Route("GET", f"{_PORT}/state", _interface),
    Route("PATCH", _PORT, _change_interface),
    Route("DELETE", _PORT, _remove_interface),
    Route("GET", "labs/{lab}/links", _links),
    Route("POST", "labs/{lab}/links", _add_link),
    Route("GET", _LINK, _link),
    Route("DELETE", _LINK, _remove_link),
    Route("GET", f"{_LINK}/state", _link_state),
    Route("GET", f"{_LINK}/check_if_converged", _link_is_converged),
    Route("PUT", f"{_LINK}/state/start", _link_up),
    Route("PUT", f"{_LINK}/state/stop", _link_down),
    Route("GET", f"{_LINK}/condition", _condition),
    Route("PATCH", f"{_LINK}/condition", _set_condition),
    Route("DELETE", f"{_LINK}/condition", _remove_condition),
    Route("PUT", f"{_LINK}/capture/start", _start_capture),
    Route("PUT", f"{_LINK}/capture/stop", _stop_capture),
    Route("GET", f"{_LINK}/capture/status", _capture_status),
    Route("GET", f"{_LINK}/capture/key", _capture_key),
    Route("GET", "pcap/{key}", _pcap),
    Route("GET", "pcap/{key}/packets", _packets),
    Route("GET", "pcap/{key}/packet/{packet}", _packet, until=(2, 10)),
    Route("GET", "pcap/{key}/packets/{packet}", _packet, since=(2, 10)),
    Route("GET", "labs/{lab}/annotations", _annotations),
    Route("POST", "labs/{lab}/annotations", _add_annotation),
    Route("PATCH", "labs/{lab}/annotations/{annotation}", _change_annotation),
    Route("DELETE", "labs/{lab}/annotations/{annotation}", _remove_annotation),
    Route("PATCH", "labs/{lab}/smart_annotations/{annotation}", _change_annotation),
    Route("DELETE", "labs/{lab}/smart_annotations/{annotation}", _remove_annotation),
)
"""Calls about what a lab is made of."""
