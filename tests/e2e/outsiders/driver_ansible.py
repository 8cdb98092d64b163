"""Ansible's cisco.ios modules do their work on a device, each twice: the second run must change nothing.

It runs in an environment of its own that has Ansible: the device comes as JSON on standard input, what each module
answered goes as JSON to the file named there.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

Task = tuple[str, dict[str, Any]]

COLLECTIONS = {"ios": "cisco.ios", "cli": "ansible.netcommon"}
READING = ("ios_facts", "ios_command", "ios_ping", "cli_command", "net_get")


def tasks(asked: dict[str, Any]) -> list[Task]:
    """Return the modules and what they shall do."""
    loop = "Loopback11"
    acl = {
        "name": "ANS",
        "acl_type": "extended",
        "aces": [
            {
                "sequence": 10,
                "grant": "permit",
                "protocol": "tcp",
                "source": {"any": True},
                "destination": {"any": True},
            }
        ],
    }
    return [
        ("ios_facts", {"gather_subset": ["all"]}),
        ("ios_command", {"commands": ["show version", "show clock"], "wait_for": ["result[0] contains Cisco"]}),
        ("ios_command", {"commands": [{"command": "clear logging", "prompt": r"\[confirm\]", "answer": "\r"}]}),
        ("ios_config", {"lines": ["description by ansible"], "parents": [f"interface {loop}"]}),
        ("ios_config", {"lines": ["ip host ansible 10.9.9.1"], "save_when": "modified"}),
        ("ios_hostname", {"config": {"hostname": "ansible1"}}),
        ("ios_interfaces", {"config": [{"name": loop, "description": "merged", "enabled": True}]}),
        ("ios_l3_interfaces", {"config": [{"name": loop, "ipv4": [{"address": "10.11.0.1/32"}]}]}),
        ("ios_static_routes", {"config": [{"address_families": [{"afi": "ipv4", "routes": [
            {"dest": "10.20.0.0/16", "next_hops": [{"forward_router_address": "198.18.1.1"}]}]}]}]}),
        ("ios_acls", {"config": [{"afi": "ipv4", "acls": [acl]}]}),
        ("ios_acl_interfaces", {"config": [{"name": loop, "access_groups": [
            {"afi": "ipv4", "acls": [{"name": "ANS", "direction": "in"}]}]}]}),
        ("ios_banner", {"banner": "login", "text": "no entry", "state": "present"}),
        ("ios_user", {"name": "ansible", "configured_password": "secret-9", "privilege": 5,
                      "update_password": "on_create"}),
        ("ios_system", {"domain_name": "ansible.example", "lookup_enabled": False}),
        ("ios_ntp_global", {"config": {"servers": [{"server": "198.18.0.1"}]}}),
        ("ios_logging_global", {"config": {"hosts": [{"hostname": "198.18.0.1"}], "buffered": {"size": 8192}}}),
        ("ios_snmp_server", {"config": {"location": "here", "contact": "me"}}),
        ("ios_lldp_global", {"config": {"enabled": True, "holdtime": 60}}),
        ("ios_ospfv2", {"config": {"processes": [{"process_id": 1, "router_id": "10.11.0.1"}]}}),
        ("ios_bgp_global", {"config": {"as_number": "65000", "neighbors": [
            {"neighbor_address": "198.18.0.9", "remote_as": "65001"}]}}),
        ("ios_prefix_lists", {"config": [{"afi": "ipv4", "prefix_lists": [{"name": "PL", "entries": [
            {"sequence": 5, "action": "permit", "prefix": "10.0.0.0/8"}]}]}]}),
        ("ios_route_maps", {"config": [{"route_map": "RM", "entries": [
            {"sequence": 10, "action": "permit", "description": "x"}]}]}),
        ("ios_ping", {"dest": asked["server"], "count": 2}),
        ("ios_service", {"config": {"timestamps": [
            {"msg": "log", "timestamp": "datetime", "datetime_options": {"msec": True}}]}}),
        ("ios_vrf_global", {"config": {"vrfs": [{"name": "ANSIBLE", "rd": "65000:7"}]}}),
        ("cli_command", {"command": "show ip interface brief"}),
        ("cli_config", {"config": "ip host cli-config 10.9.9.2"}),
    ]  # fmt: skip


def main() -> None:
    """Run a playbook with all modules twice and write what each answered."""
    asked = json.load(sys.stdin)
    wanted = tasks(asked)
    with tempfile.TemporaryDirectory() as folder:
        book = Path(folder, "book.json")
        book.write_text(json.dumps([{
            "hosts": "all", "gather_facts": False,
            "tasks": [
                {"name": f"{at} {again}", f"{COLLECTIONS[name[:3]]}.{name}": how, "ignore_errors": True}
                for at, (name, how) in enumerate(wanted) for again in ("once", "again")
            ],
        }]))  # fmt: skip
        inventory = Path(folder, "hosts.json")
        inventory.write_text(json.dumps({"all": {"hosts": {asked["name"]: {
            "ansible_host": asked["host"], "ansible_port": asked["port"], "ansible_user": asked["username"],
            "ansible_password": asked["password"], "ansible_become": True, "ansible_become_method": "enable",
            "ansible_become_password": asked["secret"], "ansible_connection": "ansible.netcommon.network_cli",
            "ansible_network_os": "cisco.ios.ios", "ansible_network_cli_ssh_type": "libssh",
            "ansible_host_key_checking": False, "ansible_command_timeout": 60,
        }}}}))  # fmt: skip
        ran = subprocess.run(
            [str(Path(sys.executable).with_name("ansible-playbook")), "-i", str(inventory), str(book)],
            capture_output=True, text=True, check=False,
            env=os.environ | {
                "ANSIBLE_STDOUT_CALLBACK": "ansible.posix.json", "ANSIBLE_HOST_KEY_CHECKING": "False",
                "ANSIBLE_DEPRECATION_WARNINGS": "False", "HOME": folder, "ANSIBLE_LOCAL_TEMP": folder,
            },
        )  # fmt: skip
    if "{" not in ran.stdout:
        Path(asked["result"]).write_text(json.dumps([["open", (ran.stderr or ran.stdout)[-300:]]]))
        return
    results = json.loads(ran.stdout[ran.stdout.index("{") :])["plays"][0]["tasks"]
    answers = {task["task"]["name"]: task["hosts"].get(asked["name"], {}) for task in results}
    found = []
    for at, (name, _) in enumerate(wanted):
        once, again = (answers.get(f"{at} {word}", {"failed": True, "msg": "not run"}) for word in ("once", "again"))
        words = next(
            (str(one.get("msg"))[:300] for one in (once, again) if one.get("failed") or one.get("unreachable")), ""
        )
        if not words and name not in READING and again.get("changed"):
            words = f"changes again: {again.get('commands') or again.get('updates')}"
        found.append([name, " ".join(words.split())])
    Path(asked["result"]).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
