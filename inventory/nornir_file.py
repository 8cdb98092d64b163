"""Open an inventory through the Nornir inventory plugin that a Nornir configuration file names.

Only the section `inventory:` of that file is used; concurrency and logging are set by flashferry. For known plugins,
relative file names refer to the folder of the configuration file. `groups.yaml` and `defaults.yaml` in that folder add
values that do not fit into a cell of a flat table.

Tables have only text, NetBox and Nautobot have sites and platforms as objects, and none of them has groups with
windows. So `groups.yaml` and `defaults.yaml` in the configuration file's folder are used as for an inventory folder; a
device joins the groups in its key `groups` and the group with the name of its site; numeric texts become numbers;
values under `flashferry` in a config context, and custom fields named like our keys, become the device's data.
"""

from __future__ import annotations

import contextlib
import io
import logging
import re
import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from nornir.core.exceptions import PluginNotRegistered
from nornir.core.inventory import Defaults, Group, Host, Hosts, Inventory
from nornir.core.plugins.inventory import InventoryPluginRegister, TransformFunctionRegister

from flashferry.core.errors import ConfigInvalid, FlashferryError
from flashferry.core.redaction import MASK, keep_secret, keep_secrets_in, masked, sanitize
from flashferry.core.value_description import control_character, described, described_file, unknown_key
from inventory.entry_checks import DATA_KEYS, unknown_group
from inventory.file_inventory import build, read_entries
from inventory.host_view import set_fault
from inventory.keys import KEYS, READERS, check_values
from inventory.platforms import platform_of
from inventory.value_readers import at_home
from inventory.yaml_file import line_of, read_mapping

CONTEXT_KEY = "flashferry"
"""Key of a config context that contains our keys."""

_NAUTOBOT = "pynautobot_dictionary"
_LIFTED = ("location", "role", "status", "tenant", "device_type", "serial", "tags", "config_context", "custom_fields")
"""Fields of Nautobot's record that are useful as filters, or may contain our keys."""


def adopt(inventory: Inventory, beside: Inventory, *, groups_file: Path, source: str) -> None:
    """Change an inventory in place into one that `inventory.host_view` can read.

    A device that names an unknown group, or has a wrong value of ours, is refused when it is selected (see
    `inventory.host_view.set_fault`).

    Args:
        inventory: The plugin's inventory.
        beside: Groups and defaults to add, checked.
        groups_file: File of those groups, for error messages.
        source: File and plugin, for error messages.

    Raises:
        ConfigInvalid: A value of ours in a group is wrong.
    """
    _add_defaults(inventory.defaults, beside.defaults)
    for name, group in beside.groups.items():
        found = inventory.groups.setdefault(name, group)
        for key, value in group.data.items():
            # The plugin has the group, too: add the values that only the file has, such as windows.
            found.data.setdefault(key, value)
    for group in inventory.groups.values():
        group.defaults = inventory.defaults
        if group.name not in beside.groups:
            check_values(group.data, where=source, name=group.name)
    hosts = list(inventory.hosts.values())
    inventory.hosts.clear()
    for host in hosts:
        # A name that a spreadsheet made a number could not be selected by `--host`.
        host.name = str(host.name)
        if host.name in inventory.hosts:
            raise ConfigInvalid(
                f"{source}: expected each name once, found more devices of the name {sanitize(host.name)}",
                hint="A number and a text may be one name: give each device a name of its own",
            )
        inventory.hosts[host.name] = host
        # The table plugin gives every host its own defaults object, so later changes of the defaults had no effect.
        host.defaults = inventory.defaults
        try:
            _adopt_host(host, inventory, groups_file, source)
        except ConfigInvalid as error:
            # A device that is not selected must not refuse the others.
            set_fault(host, error)


def _add_defaults(defaults: Defaults, more: Defaults) -> None:
    for name in ("hostname", "port", "username", "password", "platform"):
        if getattr(defaults, name) is None:
            setattr(defaults, name, getattr(more, name))
    for key, value in more.data.items():
        defaults.data.setdefault(key, value)
    for kind, options in more.connection_options.items():
        defaults.connection_options.setdefault(kind, options)


def _adopt_host(host: Host, inventory: Inventory, groups_file: Path, source: str) -> None:
    data = host.data
    _lift(data)
    data["site"] = _word(data.get("site"))
    _take_own_keys(host, source)
    for key in KEYS:
        if key.is_number:
            data[key.name] = _as_number(data.get(key.name))
        # Remove empty cells, which would hide the group's value.
        if key.name in data and data[key.name] in (None, ""):
            del data[key.name]
    host.platform = platform_of(host.platform) or host.platform
    check_values(data, where=source, name=host.name)
    _join_groups(host, inventory, groups_file, source)


def _lift(data: dict[str, Any]) -> None:
    """Copy fields of Nautobot's own record to the keys under which NetBox has them."""
    record = data.get(_NAUTOBOT)
    if not isinstance(record, Mapping):
        return
    for key in _LIFTED:
        if key in record:
            data.setdefault(key, record[key])
    data.setdefault("site", record.get("location"))


def _take_own_keys(host: Host, source: str) -> None:
    """Copy our keys from a config context, and custom fields with their names, to the host's data."""
    context = host.data.get("config_context")
    own = context.get(CONTEXT_KEY) if isinstance(context, Mapping) else None
    if own is not None and not isinstance(own, Mapping):
        raise ConfigInvalid(
            f"{source}: config context: key '{CONTEXT_KEY}': expected a mapping, found {described(own)}",
            host=host.name,
            hint=f"Write our keys below '{CONTEXT_KEY}', as in {{{CONTEXT_KEY}: {{link_rate_bps: 50000000}}}}",
        )
    for key in own or {}:
        if key not in DATA_KEYS:
            raise ConfigInvalid(
                f"{source}: config context: {unknown_key(key, DATA_KEYS)}",
                host=host.name,
                hint=f"Below '{CONTEXT_KEY}' stand our keys alone; correct it in the config context, or move it out",
            )
    fields = host.data.get("custom_fields")
    if isinstance(fields, Mapping):
        host.data |= {key: fields[key] for key in READERS if fields.get(key) is not None}
    host.data |= dict(own or {})


def _join_groups(host: Host, inventory: Inventory, groups_file: Path, source: str) -> None:
    """Add a host to the groups that it names and to the one of its site; its present groups stay."""
    named = host.data.pop("groups", None) or []
    names = re.split(r"[\s,;]+", named.strip()) if isinstance(named, str) else [str(one) for one in named]
    for number, name in enumerate(names, start=1):
        if name not in inventory.groups:
            known = frozenset(inventory.groups)
            raise ConfigInvalid(
                f"{source}: {unknown_group(name, number, groups_file, known)}",
                host=host.name,
                hint=f"Define the group in {groups_file.name}, or correct the device's 'groups'",
            )
    site = host.data.get("site")
    if isinstance(site, str) and site in inventory.groups:
        names.append(site)
    for name in names:
        if (group := inventory.groups[name]) not in host.groups:
            host.groups.append(group)


def _word(site: object) -> object:
    """Return a site as one word: for an object its slug, or its name with '-' for characters not allowed."""
    if not isinstance(site, Mapping):
        return site
    if slug := site.get("slug"):
        return slug
    return re.sub(r"[^A-Za-z0-9._]+", "-", str(site.get("name") or "")).strip("-").lower() or None


def _as_number(value: object) -> object:
    """Convert a cell's text to a number; any other text is returned unchanged, for the reader to refuse."""
    if isinstance(value, str):
        try:
            value = float(value.replace("_", "").strip())
        except ValueError:
            return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


SIMPLE = "SimpleInventory"
_PLUGINS = "nornir.plugins.inventory"

_BESIDE = {"group_file": "groups.yaml", "defaults_file": "defaults.yaml"}
_FILES: Mapping[str, Mapping[str, str]] = {
    SIMPLE: {"host_file": "hosts.yaml"} | _BESIDE,
    "CSVInventory": {"csv_file": "inventory.csv"},
    "ExcelInventory": {"excel_file": "inventory.xlsx"},
    "NetBoxInventory2": _BESIDE,
}
"""Options of plugins that are file names, with the plugin's default."""

_MAY_BE_FILES: Mapping[str, tuple[str, ...]] = {"CMLInventory": ("description", "ca_file")}
"""Options of plugins that are file names without a default."""

_EXTRAS = {
    "CMLInventory": "cml",
    "CSVInventory": "table",
    "ExcelInventory": "table",
    "FlatDataInventory": "table",
    "NBInventory": "netbox",
    "NetBoxInventory2": "netbox",
    "NautobotInventory": "nautobot",
}
"""Our extra that installs a plugin."""

_SECTIONS = ("inventory", "core", "runner", "logging", "ssh", "user_defined")
_KEYS = ("plugin", "options", "transform_function", "transform_function_options")
_WORD = re.compile(r"[A-Za-z_.]+[0-9]?")
"""Names of plugins and functions, which may be quoted: a text of letters only is no serious password."""
_SEPARATORS = (";", "\t", "|")
_MOST_NAMES = 10
_SHOWN = 200
_SHORTEST = 4
"""Least length of an option that is masked; shorter ones are flags and numbers, which would garble messages."""


def inventory_of(path: Path) -> Inventory:
    """Load the inventory that a Nornir configuration file describes, check it, and adapt it for `inventory.host_view`.

    Raises:
        ConfigInvalid: The file or the plugin's options are wrong, the plugin is not installed or fails, or its
            inventory is invalid.
    """
    section = _section(path)
    name = section["plugin"]
    options = _with_files(path, name, section.get("options") or {})
    groups = Path(options.get("group_file", path.parent / "groups.yaml"))
    defaults = Path(options.get("defaults_file", path.parent / "defaults.yaml"))
    hosts = Path(options["host_file"]) if name == SIMPLE else None
    beside = build(read_entries(hosts=hosts, groups=groups, defaults=defaults))
    source = f"{path}: {name}"
    found = beside if name == SIMPLE else _loaded(source, name, options)
    _transform(source, found, section)
    if name != SIMPLE:
        adopt(found, beside, groups_file=groups, source=source)
    return found


def _section(path: Path) -> dict[str, Any]:
    """Return the checked section `inventory:` with the name of its plugin."""
    content = read_mapping(path)
    for key in content:
        if key not in _SECTIONS:
            raise ConfigInvalid(
                f"{path}: a Nornir configuration file: {unknown_key(key, _SECTIONS)}{line_of(path, key)}",
                hint="For hosts.yaml and its companions give the folder",
            )
    section = content.get("inventory")
    if not isinstance(section, dict):
        raise ConfigInvalid(
            f"{path}: key 'inventory': expected a mapping with 'plugin' and 'options', found {described(section)}",
            hint="Write it as Nornir does: 'inventory: {plugin: SimpleInventory, options: {host_file: hosts.yaml}}'",
        )
    for key in section:
        if key not in _KEYS:
            where = line_of(path, "inventory", key)
            raise ConfigInvalid(
                f"{path}: key 'inventory': {unknown_key(key, _KEYS)}{where}",
                hint="Options of the plugin stand one level deeper, below 'options'",
            )
    plugin = section.setdefault("plugin", SIMPLE)
    if not isinstance(plugin, str) or not _is_plugin_name(plugin):
        found, where = described(plugin), line_of(path, "inventory", "plugin")
        raise ConfigInvalid(
            f"{path}: key 'plugin': expected a name such as CSVInventory, found {found}{where}",
            hint="Give the name under which the plugin is installed; its documentation has it",
        )
    for key in ("options", "transform_function_options"):
        # The value may be a token, so only its type is shown.
        if not isinstance(section.get(key) or {}, dict):
            raise ConfigInvalid(
                f"{path}: key '{key}': expected a mapping, found {described(section[key])}",
                hint="Write each option below it, one per line and indented",
            )
    return section


def _with_files(path: Path, plugin: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options, with relative file names of a known plugin resolved to the configuration file's folder."""
    found = dict(options)
    if plugin == SIMPLE and (unknown := [key for key in options if key not in _FILES[SIMPLE]]):
        raise ConfigInvalid(
            f"{path}: {plugin}: options: {unknown_key(unknown[0], _FILES[SIMPLE])}",
            hint="Correct the option, or leave it out",
        )
    for key, usual in _FILES.get(plugin, {}).items():
        given = options.get(key) or usual
        if not isinstance(given, str) or control_character(given) is not None:
            raise ConfigInvalid(
                f"{path}: {plugin}: option '{key}': expected a file, found {described(given)}",
                hint="Give the file's path as text; a relative one starts at this configuration file",
            )
        file = path.parent / at_home(given)
        if key not in _BESIDE and not file.is_file():
            seen = (
                f"none at {file}" if described_file(given) == given else f"none at the path given, {described(given)}"
            )
            raise ConfigInvalid(
                f"{path}: {plugin}: option '{key}': expected a file, found {seen}",
                hint="Correct the path; a relative one starts at this configuration file",
            )
        found[key] = str(file)
    for key in _MAY_BE_FILES.get(plugin, ()):
        if isinstance(given := options.get(key), str) and control_character(given) is None:
            found[key] = str(path.parent / at_home(given))
    return found


def _loaded(source: str, name: str, options: Mapping[str, Any]) -> Inventory:
    """Return the inventory that a plugin loads; every failure in it becomes a `ConfigInvalid` of one sentence."""
    # Some plugins print and exit instead of raising, and one logs a whole row, passwords included.
    quiet = logging.getLogger("nornir_table_inventory")
    quiet.propagate = False
    quiet.addHandler(logging.NullHandler())
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for point in entry_points(group=_PLUGINS, name=name):
                # Import only this plugin: another one may fail, or be slow.
                InventoryPluginRegister.register(point.name, point.load())
            plugin = InventoryPluginRegister.get_plugin(name)(**options)
            _sign_in(plugin)
            _tidy_table(source, plugin)
            _no_row_twice(source, plugin)
            _check_names(plugin)
            found = plugin.load()
    except PluginNotRegistered:
        raise _missing(source, name) from None
    except FlashferryError as error:
        # A plugin of ours has a hint of its own.
        raise ConfigInvalid(f"{source}: {error.message}", host=error.host, hint=error.hint) from None
    except (Exception, SystemExit) as error:  # noqa: BLE001 -- foreign code; the operator needs a sentence, not its trace
        raise _failed(source, error, said.getvalue(), options) from None
    if twice := getattr(found.hosts, "replaced", ()):
        raise ConfigInvalid(
            f"{source}: expected each name once, found more devices of the name {_listed(twice)}",
            hint="Give each device a name of its own at the source, or have a filter leave all but one out: the plugin "
            "would keep the last one and lose the others",
        )
    _keep_secrets(found)
    return found


class _CheckedHosts(Hosts):
    """Nornir's `Hosts` that also records the names under which a second device replaced a first one."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.replaced: list[str] = []

    def __setitem__(self, name: str, host: Host) -> None:
        if name in self and _is_another(self[name], host):
            self.replaced.append(str(name))
        super().__setitem__(name, host)


def _check_names(plugin: Any) -> None:
    """Let a plugin use `_CheckedHosts`: replaces the name `Hosts` in the plugin's modules, not in Nornir's."""
    for kind in type(plugin).__mro__:
        names = vars(sys.modules[kind.__module__])
        names.update((name, _CheckedHosts) for name, value in tuple(names.items()) if value is Hosts)


def _is_another(first: Host, second: Host) -> bool:
    """Return whether two hosts of one name are different devices; a plugin may also add the same one twice."""

    def known_by(host: Host) -> tuple[object, ...]:
        return (host.hostname, host.port, *(host.data.get(key) for key in ("id", "serial", "site", "location")))

    pairs = zip(known_by(first), known_by(second), strict=True)
    return any(one != other for one, other in pairs if one is not None and other is not None)


def _listed(names: Iterable[str]) -> str:
    """Return names as a list in words, sorted and sanitized."""
    known = sorted(set(names))
    more = f" and {len(known) - _MOST_NAMES} more" if len(known) > _MOST_NAMES else ""
    return ", ".join(map(sanitize, known[:_MOST_NAMES])) + more


def _tidy_table(source: str, plugin: Any) -> None:
    """Remove byte order mark, empty rows and unnamed columns from a table, as spreadsheets write them.

    A separator that the plugin does not support is refused.

    Raises:
        ConfigInvalid: The first line is one column, with another separator in its name.
    """
    rows = getattr(plugin, "hosts_list", None)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        return
    tidied = [
        {key.lstrip("\ufeff").strip().strip('"'): value for key, value in row.items() if isinstance(key, str)}
        for row in rows
    ]
    columns = [key for key in (tidied[0] if tidied else {}) if key]
    separator = next((sign for sign in _SEPARATORS if columns and sign in columns[0]), None)
    if "name" not in columns and separator is not None:
        said = "a tab" if separator == "\t" else f"'{separator}'"
        raise ConfigInvalid(
            f"{source}: expected columns with ',' between them, found {said}",
            hint="Save the file as CSV with commas; 'flashferry init --csv' reads either",
        )
    plugin.hosts_list = [
        {key: value for key, value in row.items() if key} for row in tidied if not all(map(_is_empty, row.values()))
    ]


def _is_empty(cell: object) -> bool:
    """Return whether a cell is empty: None, NaN (an empty cell of a spreadsheet) or spaces."""
    return cell is None or cell != cell or not str(cell).strip()


def _keep_secrets(found: Inventory) -> None:
    """Register the secrets in a plugin's inventory to be masked."""
    everything: list[Defaults | Group | Host] = [found.defaults, *found.groups.values(), *found.hosts.values()]
    for one in everything:
        keep_secret(one.password)
        keep_secrets_in(one.data)
        for options in one.connection_options.values():
            keep_secret(options.password)
            keep_secrets_in(options.extras)


def _sign_in(plugin: Any) -> None:
    """Set the authorization scheme for NetBox's new tokens, which are newer than the plugin.

    Since NetBox 4.5 tokens that start with `nbt_` need the scheme `Bearer`; the plugin always sends `Token`.
    """
    headers = getattr(getattr(plugin, "session", None), "headers", {})
    scheme, _, token = str(headers.get("Authorization", "")).partition(" ")
    if scheme == "Token" and token.startswith("nbt_"):
        headers["Authorization"] = f"Bearer {token}"


def _missing(source: str, name: str) -> ConfigInvalid:
    extra = _EXTRAS.get(name)
    known = ", ".join(sorted({SIMPLE, *entry_points(group=_PLUGINS).names, *_EXTRAS}))
    hint = f"Install flashferry[{extra}]" if extra else f"Install what brings it, or use one of {known}"
    return ConfigInvalid(f"{source}: this inventory plugin is not installed", hint=hint)


def _failed(source: str, error: BaseException, said: str, options: Mapping[str, Any]) -> ConfigInvalid:
    """Return a plugin's failure as an error, with the values of its options masked, except files and addresses."""
    if isinstance(error, KeyError) and error.args == ("name",):
        return ConfigInvalid(
            f"{source}: expected a column 'name', found none",
            hint="The first line names the columns, with commas between them",
        )
    text = masked(said if isinstance(error, SystemExit) else _text_of(error))
    for value in _given(options):
        text = text.replace(value, MASK)
    # Shortened only after masking, for half a token would not be recognised.
    words = " ".join(text.split()).rstrip(".")[:_SHOWN] or "no reason given"
    return ConfigInvalid(f"{source}: {type(error).__name__}: {words}", hint="Check the plugin's options")


def _text_of(error: BaseException) -> str:
    """Return an error's text; empty if converting it to text fails."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 -- foreign code
        return ""


def _given(options: Mapping[str, Any]) -> list[str]:
    """Return the texts to mask: a plugin's options that are no file and no address, plain and as Python's `repr`.

    Any of them may be a token, whatever its key, and so may a key that is no word. The longest come first, because one
    may contain another.
    """
    found: set[str] = set()
    waiting: list[object] = [options]
    seen: set[int] = set()
    while waiting:
        value = waiting.pop()
        if isinstance(value, Mapping | list | tuple) and id(value) not in seen:
            seen.add(id(value))
            waiting += value.values() if isinstance(value, Mapping) else value
            if isinstance(value, Mapping):
                found |= {str(key) for key in value if not _WORD.fullmatch(str(key))}
        elif isinstance(value, str) and "://" not in value and described_file(value) != value:
            found |= {value, value.strip(), repr(value)[1:-1]}
    return sorted((one for one in found if len(one) >= _SHORTEST), key=len, reverse=True)


def _is_plugin_name(name: str) -> bool:
    """Return whether a name may be quoted as a plugin's: it is installed, or has the form of a plugin name."""
    return _WORD.fullmatch(name) is not None or name in entry_points(group=_PLUGINS).names


def _no_row_twice(source: str, plugin: Any) -> None:
    """Refuse a table with two rows for a device: the plugin would keep only the last one."""
    rows = getattr(plugin, "hosts_list", None) or []
    twice = sorted(str(name) for name, count in Counter(str(row.get("name")) for row in rows).items() if count > 1)
    if twice:
        raise ConfigInvalid(
            f"{source}: expected one row per device, found more for {', '.join(twice)}",
            hint="Leave one row for each device, or give the others names of their own",
        )


def _transform(source: str, found: Inventory, section: Mapping[str, Any]) -> None:
    name = section.get("transform_function")
    if not name:
        return
    try:
        TransformFunctionRegister.auto_register()
        function = TransformFunctionRegister.get_plugin(name)
        for host in found.hosts.values():
            function(host, **(section.get("transform_function_options") or {}))
    except PluginNotRegistered:
        shown_name = repr(name) if _WORD.fullmatch(str(name)) else described(name)
        raise ConfigInvalid(
            f"{source}: transform function {shown_name} is not installed",
            hint="Install the package that has it, or correct 'transform_function'",
        ) from None
    except Exception as error:  # noqa: BLE001 -- foreign code, as above
        options = section.get("transform_function_options") or {}
        raise _failed(f"{source}: transform function", error, "", options) from None
