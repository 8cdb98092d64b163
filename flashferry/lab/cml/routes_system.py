"""Calls about the controller itself: logins, health, definitions, images, connectors, users."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from flashferry.lab.cml.access import User
from flashferry.lab.cml.controller import OUI
from flashferry.lab.cml.routing import ApiRoute, Call
from flashferry.lab.cml.texts import refused

_MEMORY_BYTES = 128 * 2**30
_DISK_BYTES = 500 * 10**9
_CPUS = 32
_LONGEST_PART_HEAD = 4096


def _information(call: Call) -> object:
    switches = call.controller.switches
    return {
        "version": switches.value("version"),
        "ready": switches.value("is_ready"),
        "allow_ssh_pubkey_auth": False,
        "oui": OUI,
    }


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
        "kvm_vmx_enabled": True,
        "enough_cpus": True,
        "refplat_images_available": True,
        "lld_connected": is_ready,
        "valid": is_ready,
        "is_controller": True,
        "hostname": "cml-standin",
    }
    return {
        "valid": is_ready and controller.is_licensed,
        "computes": {controller.compute_id: compute},
        "is_licensed": controller.is_licensed,
        "is_enterprise": False,
        "controller": {"core_connected": True, "nodes_loaded": True, "images_loaded": True, "valid": True},
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
        ends = source.tell() + source.read().rfind(tail)
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
    return [
        {
            "id": key,
            "tags": [each["label"]],
            "allowed": True,
            "protected": False,
            "snooped": is_snooping,
            **each,
            "operational": {
                "forwarding": each["forwarding"],
                "label": each["label"],
                "mtu": 1500,
                "exists": True,
                "enabled": True,
                "ip_networks": ["192.168.255.1/24"] if each["forwarding"] == "NAT" else [],
            },
        }
        for key, each in call.controller.connectors.items()
    ]


def _user_json(call: Call, user: User) -> dict[str, Any]:
    return {
        "id": user.user_id,
        "username": user.username,
        "fullname": "",
        "description": "",
        "email": "",
        "admin": user.is_admin,
        "groups": [],
        "labs": [lab.lab_id for lab in call.controller.labs() if lab.owner_id == user.user_id],
        "resource_pool": None,
    }


def _computes(call: Call) -> object:
    controller = call.controller
    counts = {"deployed": controller.counted(), "running": controller.counted(), "orphans": 0}
    host: dict[str, Any] = {
        "id": controller.compute_id,
        "hostname": "cml-standin",
        "server_address": "127.0.0.1",
        "is_connector": True,
        "is_simulator": True,
        "is_connected": bool(controller.switches.value("is_ready")),
        "is_synced": True,
        "admission_state": "READY",
        "node_counts": counts,
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
