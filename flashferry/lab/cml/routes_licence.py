"""Calls about the licence: its state as the client's own example prints it, and registering."""

from __future__ import annotations

from typing import Any

from flashferry.lab.cml.routing import ApiRoute, Call
from flashferry.lab.cml.texts import refused

_SMART_SERVER = "https://smartreceiver.cisco.com/licservice/license"
_NEVER = "2036-01-01 00:00:00"


def _status(call: Call) -> dict[str, Any]:
    return {
        "udi": call.controller.compute_id,
        "registration": _registration(call),
        "authorization": _authorization(call),
        "reservation_mode": False,
        "transport": {"ssms": _SMART_SERVER, "proxy": {"server": None, "port": None}, "default_ssms": _SMART_SERVER},
        "features": _features(call),
        "product_license": {"active": "CML_Personal", "is_enterprise": False},
    }


def _registration(call: Call) -> dict[str, Any]:
    is_licensed = call.controller.is_licensed
    return {
        "status": "COMPLETED" if is_licensed else "NOT_REGISTERED",
        "expires": _NEVER if is_licensed else None,
        "smart_account": "Lab" if is_licensed else None,
        "virtual_account": "Lab" if is_licensed else None,
        "instance_name": "cml-standin",
        "register_time": _times("SUCCESS" if is_licensed else "FAILED"),
        "renew_time": _times("FAILED"),
    }


def _authorization(call: Call) -> dict[str, Any]:
    is_licensed = call.controller.is_licensed
    return {
        "status": "IN_COMPLIANCE" if is_licensed else "EVAL_EXPIRED",
        "renew_time": _times("SUCCESS" if is_licensed else "FAILED"),
        "expires": _NEVER if is_licensed else None,
    }


def _times(success: str) -> dict[str, str | None]:
    return {**dict.fromkeys(("succeeded", "attempted", "scheduled", "status", "failure")), "success": success}


def _features(call: Call) -> list[dict[str, Any]]:
    feature = {
        "id": "regid.2019-10.com.cisco.CML_PERSONAL,1.0_standin",
        "name": "CML - Personal License",
        "description": "Stands in for a licence",
        "in_use": call.controller.counted(),
        "status": "IN_COMPLIANCE" if call.controller.is_licensed else "INIT",
        "version": "1.0",
        "min": 0,
        "max": call.controller.switches.value("quota"),
    }
    return [feature]


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
