"""Inventories through other Nornir plugins: the worked examples against what they stand for, and what goes wrong."""

from __future__ import annotations

import csv
import http.server
import importlib.util
import json
import logging
import shutil
import sys
import threading
from importlib.metadata import EntryPoints
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import nornir.core.inventory
import pytest
from nornir.core.inventory import Defaults, Groups, Host, Hosts, Inventory
from nornir.core.plugins.inventory import InventoryPluginRegister

from flashferry.core.errors import ConfigInvalid
from inventory.host_view import HostView, view
from inventory.nornir_loader import open_inventory, sample_directory
from inventory.selection import Selection, narrowed
from inventory.sites import sites_of

INVENTORIES = Path(__file__).parents[2] / "captures" / "inventories"
EXAMPLES = sample_directory().parent / "examples"
NIGHTS = "mon tue wed thu 22:00-05:00 Europe/Oslo"


def needs(module: str, extra: str):
    found = importlib.util.find_spec(module) is not None
    return pytest.mark.skipif(not found, reason=f"needs the extra '{extra}', which is too large for every check")


def views(path: Path) -> dict[str, HostView]:
    return {name: view(host) for name, host in open_inventory(path).inventory.hosts.items()}


def chosen(path: Path, *filters: str) -> list[str]:
    return sorted(narrowed(open_inventory(path), Selection(filters=filters)).inventory.hosts)


class Api(http.server.ThreadingHTTPServer):
    """Answers a GET of the device list two at a time, to whoever shows the right Authorization."""

    def __init__(self, devices: list[dict], authorization: str) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.devices, self.authorization, self.asked = devices, authorization, []
        self.url = f"http://127.0.0.1:{self.server_port}"


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        asked = urlsplit(self.path)
        if self.headers.get("Authorization") != self.server.authorization:
            self.answer(403, {"detail": "Invalid token"})
        elif asked.path != "/api/dcim/devices/":
            self.answer(404, {"detail": "Not found."})
        else:
            self.page(int(parse_qs(asked.query).get("offset", ["0"])[0]))

    def page(self, offset: int) -> None:
        every = self.server.devices
        more = f"{self.server.url}/api/dcim/devices/?limit=2&offset={offset + 2}" if offset + 2 < len(every) else None
        page = {"count": len(every), "next": more, "previous": None, "results": every[offset : offset + 2]}
        self.answer(200, page)

    def answer(self, status: int, body: dict) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def api():
    running = []

    def start(devices: list[dict], authorization: str) -> Api:
        server = Api(devices, authorization)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        running.append((server, thread))
        return server

    yield start
    for server, thread in running:
        server.shutdown()
        thread.join()
        server.server_close()


def netbox_device(number: int, name: str, site: str, platform: str, **more: object) -> dict:
    """Return a device as NetBox 4 lists it."""
    return {
        "id": number,
        "url": f"http://netbox.example/api/dcim/devices/{number}/",
        "display": name,
        "name": name,
        "device_type": {
            "id": 1,
            "manufacturer": {"id": 1, "name": "Cisco", "slug": "cisco"},
            "model": "ISR4331/K9",
            "slug": "isr4331-k9",
        },
        "role": {"id": 1, "name": "WAN router", "slug": "wan-router"},
        "tenant": None,
        "platform": {"id": 1, "name": "whatever", "slug": platform},
        "serial": "",
        "site": {"id": 1, "name": site.title(), "slug": site},
        "status": {"value": "active", "label": "Active"},
        "primary_ip": {"id": 1, "family": {"value": 4, "label": "IPv4"}, "address": f"192.0.2.{number}/24"},
        "config_context": {},
        "tags": [{"id": 1, "name": "edge", "slug": "edge"}],
        "custom_fields": {},
    } | more


NETBOX = [
    netbox_device(21, "osl-rtr1", "oslo", "cisco-ios"),
    netbox_device(22, "osl-rtr2", "oslo", "ios-xe", custom_fields={"image": "c1.bin", "rack_unit": 7}),
    netbox_device(
        23,
        "lis-rtr1",
        "lisbon",
        "cisco_xe",
        config_context={"flashferry": {"max_copies": 2, "windows": [{"from": "23:00", "until": "04:30"}]}, "ntp": []},
    ),
]


@pytest.fixture
def netbox(api, monkeypatch):
    server = api(NETBOX, "Token 0123456789")
    monkeypatch.setenv("NB_URL", server.url)
    monkeypatch.setenv("NB_TOKEN", "0123456789")
    return server


@needs("nornir_netbox", "netbox")
def test_the_netbox_example_finds_devices_sites_and_windows(netbox):
    """Sites come by slug, with the groups beside the file or a config context; custom fields and platforms are read."""
    found = views(EXAMPLES / "netbox" / "nornir.yaml")
    assert [(one.name, one.address, one.platform, one.site) for one in found.values()] == [
        ("osl-rtr1", "192.0.2.21", "ios", "oslo"),
        ("osl-rtr2", "192.0.2.22", "ios", "oslo"),
        ("lis-rtr1", "192.0.2.23", "ios", "lisbon"),
    ]
    sites = sites_of(found.values())
    assert (sites["oslo"].link_rate_bps, sites["oslo"].cap_share) == (100e6, 0.7)
    assert [str(one) for one in sites["oslo"].windows] == [NIGHTS]
    assert (sites["lisbon"].link_rate_bps, sites["lisbon"].max_copies) == (50e6, 2)
    assert [str(one) for one in sites["lisbon"].windows] == ["daily 23:00-04:30 UTC"]
    assert found["osl-rtr2"].image == "c1.bin"
    assert "role=wan-router" in netbox.asked[0]


@needs("nornir_netbox", "netbox")
@pytest.mark.parametrize(
    ("filters", "names"),
    [
        (("site=oslo",), ["osl-rtr1", "osl-rtr2"]),
        (("group=site__lisbon",), ["lis-rtr1"]),
        (("role=wan-router", "tags=edge", "site=lisbon"), ["lis-rtr1"]),
        (("device_type=ISR4331/K9", "status=active", "name=osl-rtr2"), ["osl-rtr2"]),
    ],
)
def test_filters_work_on_what_netbox_says(netbox, filters, names):
    """A role or a tag is an object there; its slug, name or value is what people write."""
    assert chosen(EXAMPLES / "netbox" / "nornir.yaml", *filters) == names


@needs("nornir_netbox", "netbox")
def test_netboxs_newer_tokens_are_sent_as_it_wants_them(api, monkeypatch):
    """Those that begin with nbt_ go behind the word Bearer."""
    monkeypatch.setenv("NB_URL", api(NETBOX, "Bearer nbt_key.secret").url)
    monkeypatch.setenv("NB_TOKEN", "nbt_key.secret")
    assert len(views(EXAMPLES / "netbox" / "nornir.yaml")) == 3


@needs("nornir_netbox", "netbox")
def test_a_refused_token_is_told_without_it(netbox, monkeypatch):
    """The file, the plugin and its reason stand in the sentence; the token does not."""
    monkeypatch.setenv("NB_TOKEN", "wrong-token-word")
    with pytest.raises(ConfigInvalid, match=r"nornir\.yaml: NetBoxInventory2: .*Failed to get data from") as caught:
        open_inventory(EXAMPLES / "netbox" / "nornir.yaml")
    assert "wrong-token-word" not in str(caught.value)


@needs("nornir_netbox", "netbox")
@pytest.mark.parametrize(
    ("context", "message"),
    [
        ({"windows": []}, "data key 'windows': expected at least one window"),
        ({"link_rate_bp": 5}, "config context: unknown key 'link_rate_bp'; did you mean 'link_rate_bps'"),
        ([1], r"config context: key 'flashferry': expected a mapping, found a list with 1 entry"),
    ],
)
def test_a_wrong_config_context_is_told_with_source_and_device(api, monkeypatch, context, message):
    """There is no file to name, but there is the plugin and the device."""
    device = netbox_device(21, "osl-rtr1", "oslo", "ios", config_context={"flashferry": context})
    monkeypatch.setenv("NB_URL", api([device], "Token t").url)
    monkeypatch.setenv("NB_TOKEN", "t")
    with pytest.raises(ConfigInvalid, match=rf"^osl-rtr1: .*nornir\.yaml: NetBoxInventory2: {message}"):
        chosen(EXAMPLES / "netbox" / "nornir.yaml", "name=osl-rtr1")


@needs("nornir_netbox", "netbox")
def test_one_name_at_two_sites_is_refused(api, monkeypatch):
    """The plugin keeps the last one, so that the other would be staged by nobody: both are named, none is staged."""
    twins = [netbox_device(21, "rtr1", "oslo", "ios"), netbox_device(22, "rtr1", "lisbon", "ios")]
    monkeypatch.setenv("NB_URL", api([*NETBOX, *twins], "Token t").url)
    monkeypatch.setenv("NB_TOKEN", "t")
    with pytest.raises(ConfigInvalid, match=r"NetBoxInventory2: expected each name once, found .* name rtr1"):
        open_inventory(EXAMPLES / "netbox" / "nornir.yaml")


def nautobot_device(number: int, name: str, location: str, driver: str, **more: object) -> dict:
    """Return a device as Nautobot 2 lists it at depth 1."""
    return {
        "id": f"00000000-0000-4000-8000-{number:012d}",
        "object_type": "dcim.device",
        "display": name,
        "name": name,
        "serial": "",
        "device_type": {"id": "1", "object_type": "dcim.devicetype", "model": "ISR4331/K9"},
        "status": {"id": "2", "object_type": "extras.status", "name": "Active"},
        "role": {"id": "3", "object_type": "extras.role", "name": "wan-router"},
        "platform": {"id": "4", "object_type": "dcim.platform", "name": "any", "network_driver": driver},
        "location": {"id": "5", "object_type": "dcim.location", "name": location},
        "primary_ip4": {"id": "6", "object_type": "ipam.ipaddress", "address": f"192.0.2.{number}/24"},
        "primary_ip6": None,
        "tenant": None,
        "tags": [],
        "custom_fields": {},
    } | more


@needs("nornir_nautobot", "nautobot")
def test_the_nautobot_example_finds_devices_sites_and_windows(api, monkeypatch):
    """The location stands for the site; groups beside the file, or a config context that was asked for, do the rest."""
    context = {"flashferry": {"windows": [{"from": "23:00", "until": "04:30"}]}}
    devices = [
        nautobot_device(21, "osl-rtr1", "Oslo East", "cisco_xe"),
        nautobot_device(22, "osl-rtr2", "Oslo East", "cisco_ios", custom_fields={"image": "c1.bin"}),
        nautobot_device(23, "lis-rtr1", "Lisbon", "cisco_ios", config_context=context),
    ]
    server = api(devices, "Token 0123456789")
    monkeypatch.setenv("NAUTOBOT_URL", server.url)
    monkeypatch.setenv("NAUTOBOT_TOKEN", "0123456789")
    path = EXAMPLES / "nautobot" / "nornir.yaml"
    found = views(path)
    assert [(one.name, one.address, one.platform, one.site) for one in found.values()] == [
        ("osl-rtr1", "192.0.2.21", "ios", "oslo-east"),
        ("osl-rtr2", "192.0.2.22", "ios", "oslo-east"),
        ("lis-rtr1", "192.0.2.23", "ios", "lisbon"),
    ]
    sites = sites_of(found.values())
    assert (sites["oslo-east"].link_rate_bps, [str(one) for one in sites["oslo-east"].windows]) == (100e6, [NIGHTS])
    assert [str(one) for one in sites["lisbon"].windows] == ["daily 23:00-04:30 UTC"]
    assert found["osl-rtr2"].image == "c1.bin"
    assert chosen(path, "role=wan-router", "site=oslo-east", "status=Active") == ["osl-rtr1", "osl-rtr2"]


@needs("nornir_table_inventory", "table")
@pytest.mark.parametrize("kind", ["csv", "excel"])
def test_the_table_examples_find_devices_sites_and_windows(kind):
    """Cells give a device's own keys, groups.yaml beside them what a cell cannot hold; empty cells say nothing."""
    if kind == "excel":
        pytest.importorskip("openpyxl")
    path = EXAMPLES / kind / "nornir.yaml"
    found = views(path)
    assert [(one.name, one.address, one.port, one.platform, one.site) for one in found.values()] == [
        ("osl-rtr1", "192.0.2.21", 22, "ios", "oslo"),
        ("osl-rtr2", "192.0.2.22", 22, "ios", "oslo"),
        ("lis-rtr1", "198.51.100.21", 2222, "ios", "lisbon"),
    ]
    sites = sites_of(found.values())
    assert (sites["oslo"].link_rate_bps, sites["oslo"].max_copies, sites["oslo"].cap_share) == (100e6, 8, 0.7)
    assert [str(one) for one in sites["oslo"].windows] == [NIGHTS]
    assert found["osl-rtr2"].image == "isr4300-universalk9.17.12.04.SPA.bin"
    assert found["osl-rtr2"].groups == ("core", "spare", "oslo")
    assert chosen(path, "rack=B5") == chosen(path, "group=spare") == ["osl-rtr2"]


class Rows:
    """Stands for the table plugin, which reads a row into a host of its own defaults; the rest of it is too large."""

    def __init__(self, rows: list[dict]) -> None:
        self.hosts_list = rows

    def load(self) -> Inventory:
        hosts = Hosts()
        for row in self.hosts_list:
            own = {key: row.get(key) for key in ("hostname", "platform", "password")}
            hosts[row["name"]] = Host(name=row["name"], data=dict(row), defaults={}, **own)
        return Inventory(hosts=hosts, groups=Groups(), defaults=Defaults())


class Table(Rows):
    """Reads a file as the table plugin does."""

    def __init__(self, csv_file: str) -> None:
        with Path(csv_file).open(encoding="utf8") as file:
            super().__init__(list(csv.DictReader(file)))

    def load(self) -> Inventory:
        if not all(row["name"] for row in self.hosts_list):
            raise ValueError("HOST name must not be empty")
        return super().load()


class Twice:
    """Puts a second host of one name in the first one's place; what differs is the option's to say."""

    def __init__(self, first: dict, second: dict) -> None:
        self.rows = (first, second)

    def load(self) -> Inventory:
        hosts = Hosts()
        for row in self.rows:
            hosts["r1"] = Host(name="r1", hostname=row.get("hostname"), platform="ios", data=row)
        return Inventory(hosts=hosts, groups=Groups(), defaults=Defaults())


class Rude:
    """Stands for a plugin that prints, logs and exits."""

    def __init__(self, how: str) -> None:
        self.how = how

    def load(self) -> Inventory:
        sys.stdout.write("Error in the query filters: no such role.")
        logging.getLogger("nornir_table_inventory.plugins").error("row with password hidden-word")
        if self.how == "exit":
            raise SystemExit(1)
        raise RuntimeError(f"it said {self.how}")


@pytest.fixture(autouse=True)
def plugins():
    for one in (Rows, Table, Twice, Rude):
        InventoryPluginRegister.register(one.__name__, one)
    yield
    for one in (Rows, Table, Twice, Rude):
        InventoryPluginRegister.deregister(one.__name__)


def rows(folder: Path, *found: dict, groups: str = "") -> Path:
    (folder / "groups.yaml").write_text(groups)
    path = folder / "nornir.yaml"
    path.write_text(json.dumps({"inventory": {"plugin": "Rows", "options": {"rows": found}}}))
    return path


ROW = {"name": "r1", "hostname": "192.0.2.1", "platform": "Cisco IOS-XE"}


def test_numbers_in_cells_are_read_and_empty_cells_say_nothing(tmp_path):
    """Text of digits is a number, a spreadsheet's 4.0 is four, and an empty cell leaves the group's word."""
    found = rows(
        tmp_path,
        ROW | {"link_rate_bps": "50000000", "cap_share": "", "max_copies": 4.0, "vrf": None, "site": "east"},
        groups="east: {data: {cap_share: 0.5, vrf: Mgmt}}",
    )
    one = views(found)["r1"]
    assert (one.link_rate_bps, one.cap_share, one.max_copies, one.vrf) == (50e6, 0.5, 4, "Mgmt")


def test_defaults_beside_the_file_reach_every_host(tmp_path):
    """And what is set in the defaults later does so too: the rules for host keys are."""
    (tmp_path / "defaults.yaml").write_text("{platform: ios, username: ferry, data: {cap_share: 0.3}}")
    opened = open_inventory(rows(tmp_path, ROW | {"platform": None})).inventory
    opened.defaults.data["known_hosts"] = "somewhere"
    host = opened.hosts["r1"]
    assert (host.platform, host.username, view(host).cap_share, host["known_hosts"]) == (
        "ios",
        "ferry",
        0.3,
        "somewhere",
    )


def test_a_number_for_a_name_is_found_by_its_text(tmp_path):
    """A spreadsheet makes 4711 of the device 4711."""
    path = rows(tmp_path, ROW | {"name": 4711})
    assert list(narrowed(open_inventory(path), Selection(hosts=("4711",))).inventory.hosts) == ["4711"]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (
            {"link_rate_bps": "fast"},
            r"^r1: .*nornir\.yaml: Rows: data key 'link_rate_bps': expected .*found text of 4 characters",
        ),
        ({"windows": "22:00-05:00"}, "^r1: .* data key 'windows': expected a list of windows"),
        ({"groups": "east; west"}, r"^r1: .*Rows: key 'groups': group number 2 is not in .*groups\.yaml"),
        ({"site": "a b"}, "^r1: .* data key 'site': expected one word"),
    ],
)
def test_a_wrong_cell_is_told_with_source_device_and_key(tmp_path, more, message):
    """File, plugin, device and key stand in one sentence; a device that is not selected refuses no other."""
    path = rows(tmp_path, ROW | more, ROW | {"name": "r2"}, groups="east: {}")
    with pytest.raises(ConfigInvalid, match=message):
        chosen(path, "platform=ios")
    with pytest.raises(ConfigInvalid, match=message):
        views(path)
    assert chosen(path, "name=r2") == ["r2"]


def test_a_device_named_twice_is_refused(tmp_path):
    """The plugin would keep the last row and lose the other without a word."""
    with pytest.raises(ConfigInvalid, match="expected one row per device, found more for r1"):
        open_inventory(rows(tmp_path, ROW, ROW, ROW | {"name": "r2"}))


def test_a_number_and_a_text_may_be_one_name(tmp_path):
    """A spreadsheet's 4711 and '4711' are two rows for one device."""
    with pytest.raises(ConfigInvalid, match="expected one row per device, found more for 4711"):
        open_inventory(rows(tmp_path, ROW | {"name": 4711}, ROW | {"name": "4711"}))


@pytest.mark.parametrize(
    ("first", "second", "is_refused"),
    [
        ({"hostname": "192.0.2.1"}, {"hostname": "192.0.2.2"}, True),
        ({"hostname": "r1", "site": "oslo"}, {"hostname": "r1", "site": "lisbon"}, True),
        ({"hostname": "r1", "id": 1}, {"hostname": "r1", "id": 2}, True),
        ({"hostname": "r1"}, {"hostname": "r1", "site": "oslo"}, False),
    ],
)
def test_any_plugin_that_finds_a_name_twice_is_refused(tmp_path, first, second, is_refused):
    """Whatever it is: two devices are refused; the same device once more, with more said of it, is not."""
    path = tmp_path / "nornir.yaml"
    path.write_text(json.dumps({"inventory": {"plugin": "Twice", "options": {"first": first, "second": second}}}))
    if is_refused:
        with pytest.raises(ConfigInvalid, match="expected each name once, found more devices of the name r1"):
            open_inventory(path)
    else:
        assert views(path)["r1"].site == "oslo"
    assert "__setitem__" not in vars(nornir.core.inventory.Hosts), "Nornir's own class is left alone"


def table(folder: Path, name: str) -> Path:
    path = folder / "nornir.yaml"
    path.write_text(json.dumps({"inventory": {"plugin": "Table", "options": {"csv_file": str(INVENTORIES / name)}}}))
    return path


@pytest.mark.parametrize("name", ["csv-bom.csv", "csv-empty-rows.csv"])
def test_a_table_as_spreadsheets_write_it(tmp_path, name):
    """A byte order mark, an empty row at the end, columns without a name: the devices are those that a person sees."""
    assert [(one.name, one.address) for one in views(table(tmp_path, name)).values()] == [("ams-1", "192.0.2.1")]


def test_a_table_with_another_separator_is_refused_by_its_name(tmp_path):
    """It would read as one column."""
    with pytest.raises(ConfigInvalid, match="expected columns with ',' between them, found ';'") as caught:
        open_inventory(table(tmp_path, "csv-semicolon.csv"))
    assert "init --csv" in str(caught.value.hint)


def test_what_containerlab_writes_beside_a_lab_is_read(tmp_path):
    """The kind of a node is its platform there: a C8000V is one of ours, an IOS-XR router none."""
    path = tmp_path / "nornir.yaml"
    hosts = (INVENTORIES / "nornir-simple-inventory.yml").read_text()
    (tmp_path / "hosts.yaml").write_text(hosts)
    path.write_text("{inventory: {plugin: SimpleInventory, options: {host_file: hosts.yaml}}}")
    assert views(path)["clab-lab1-rtr1"].platform == "ios"
    (tmp_path / "hosts.yaml").write_text(hosts.replace("cisco_c8000v", "cisco_xrd"))
    with pytest.raises(ConfigInvalid, match="platform: expected ios"):
        views(path)


def test_a_wrong_group_beside_the_file_is_told_with_its_file(tmp_path):
    """It is checked as in a folder."""
    with pytest.raises(ConfigInvalid, match=r"^east: .*groups\.yaml: data key 'cap_share'"):
        open_inventory(rows(tmp_path, ROW, groups="east: {data: {cap_share: 7}}"))


def test_a_configuration_file_may_name_a_folders_files(tmp_path):
    """SimpleInventory's files are looked for beside it, and checked as those of a folder."""
    for name in ("hosts.yaml", "groups.yaml", "defaults.yaml"):
        shutil.copy(sample_directory() / name, tmp_path)
    (tmp_path / "hosts.yaml").rename(tmp_path / "routers.yaml")
    path = tmp_path / "nornir.yaml"
    path.write_text(
        "{inventory: {plugin: SimpleInventory, options: {host_file: routers.yaml}}, runner: {plugin: serial}}"
    )
    assert views(path)["xe1"].site == "branch"
    (tmp_path / "groups.yaml").write_text("branch: {data: {cap_share: 7}}")
    with pytest.raises(ConfigInvalid, match=r"^branch: .*groups\.yaml: data key 'cap_share'"):
        open_inventory(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "xe1: {hostname: h}",
            "a Nornir configuration file: unknown key, text of 3 .*For hosts.yaml .* give the folder",
        ),
        ("runner: {}", "key 'inventory': expected a mapping with 'plugin' and 'options', found none"),
        ("inventory: {plugins: x}", "key 'inventory': unknown key 'plugins'"),
        ("inventory: {plugin: 5}", "key 'plugin': expected a name such as CSVInventory, found 5"),
        (
            "inventory: {plugin: Rude, options: secret-word}",
            "key 'options': expected a mapping, found text of 11 characters",
        ),
        (
            "inventory: {options: {host_fil: x}}",
            "SimpleInventory: options: unknown key 'host_fil'; did you mean 'host_file'",
        ),
        ("inventory: {plugin: NoSuch}", "NoSuch: this inventory plugin is not installed. Install what brings it"),
        ("inventory: {plugin: Rude}", "Rude: TypeError: .*missing 1 required .*'how'. Check the plugin's options"),
        ("inventory: {plugin: Rude, options: {how: no}}", "Rude: RuntimeError: it said no"),
        ("inventory: {plugin: Rude, options: {how: exit}}", "Rude: SystemExit: Error in the query filters: no such"),
        ("inventory: {plugin: CSVInventory}", "CSVInventory: option 'csv_file': expected a file, found none at .*csv"),
        (
            "{inventory: {plugin: Rows, options: {rows: []}, transform_function: x}}",
            "Rows: transform function 'x' is not",
        ),
    ],
)
def test_a_wrong_configuration_file_is_told(tmp_path, text, message, capfd):
    """Whatever goes wrong in a plugin becomes one sentence; what it prints, logs and does not say stays inside."""
    path = tmp_path / "nornir.yaml"
    path.write_text(text)
    with pytest.raises(ConfigInvalid, match=rf"nornir\.yaml: {message}") as caught:
        open_inventory(path)
    out, err = capfd.readouterr()
    assert out == ""
    assert "hidden-word" not in err
    assert "secret-word" not in str(caught.value)


@pytest.mark.parametrize(
    ("plugin", "extra"),
    [("CSVInventory", "table"), ("NetBoxInventory2", "netbox"), ("NautobotInventory", "nautobot")],
)
def test_a_plugin_of_an_extra_names_the_extra(tmp_path, monkeypatch, plugin, extra):
    """A bare installation tells what to install."""
    monkeypatch.setattr("inventory.nornir_file.entry_points", lambda **_: EntryPoints())
    monkeypatch.setattr(InventoryPluginRegister, "available", {})
    (tmp_path / "inventory.csv").touch()
    (tmp_path / "nornir.yaml").write_text(f"inventory: {{plugin: {plugin}}}")
    with pytest.raises(ConfigInvalid, match=rf"{plugin}: this inventory plugin is not installed\. .*\[{extra}\]"):
        open_inventory(tmp_path / "nornir.yaml")
