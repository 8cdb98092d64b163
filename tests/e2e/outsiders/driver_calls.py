"""netmiko, NAPALM, scrapli, scrapli_cfg, pyntc and pyATS do their calls on a device.

It runs in an environment of its own that has the tool: tool and device come as JSON on standard input, what each call
answered goes as JSON to the file named there: its name, and nothing where it did what it should, else what it said.
"""

import contextlib
import json
import logging
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

Call = tuple[str, Callable[[], Any]]
REFUSALS = ("Invalid input", "Incomplete command", "Ambiguous command", "Unrecognized")


def main() -> None:
    """Do the calls of a tool, each for itself."""
    asked = json.load(sys.stdin)
    logging.disable(logging.CRITICAL)
    found = []
    with tempfile.TemporaryDirectory() as folder:
        try:
            for name, call in TOOLS[asked["tool"]](asked, Path(folder)):
                found.append([name, answered(call)])
        except Exception as error:  # noqa: BLE001 - another's code
            found.append(["open", words_of(error)])
    Path(asked["result"]).write_text(json.dumps(found))


def words_of(error: Exception) -> str:
    """Return an exception in one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]


def answered(call: Callable[[], Any]) -> str:
    """Return nothing where a call did what it should, else what it said."""
    try:
        answer = call()
    except Exception as error:  # noqa: BLE001 - another's code
        return words_of(error)
    if answer is False or answer is None:
        return f"answers {answer!r}"
    shown = str(answer)
    return next((f"was refused: {word}: {shown[-200:]}" for word in REFUSALS if word in shown), "")


def done(call: Callable[[], Any]) -> Callable[[], bool]:
    """Return a call of which only an exception is a failure."""

    def called() -> bool:
        call()
        return True

    return called


def holds(call: Callable[[], Any], *words: str) -> Callable[[], Any]:
    """Return a call that must answer with some words."""

    def called() -> Any:
        shown = str(call())
        missing = [word for word in words if word not in shown]
        return shown if not missing else f"% Invalid input: expected {missing}, found {shown[-200:]}"

    return called


def netmiko_calls(asked: dict[str, Any], folder: Path) -> Iterator[Call]:
    """The calls of netmiko's documentation for `cisco_ios` and `cisco_xe`."""
    from netmiko import ConnectHandler, SSHDetect, file_transfer

    own = {"host": asked["host"], "username": asked["username"], "password": asked["password"], "port": asked["port"]}
    kind = "cisco_xe" if asked["os"] == "iosxe" else "cisco_ios"
    link = ConnectHandler(device_type=kind, secret=asked["secret"], **own)
    lines = folder / "lines.txt"
    lines.write_text("ip tcp synwait-time 10\ninterface Loopback7\n description from a file\n")
    small = folder / "small.txt"
    small.write_text("hello from netmiko\n" * 20)

    def moved(direction: str, *, inline: bool, name: str, file: Path) -> Callable[[], Any]:
        def move() -> Any:
            here, there = (str(file), name) if direction == "put" else (name, str(file))
            return file_transfer(
                link, source_file=here, dest_file=there,
                file_system=asked["flash"], direction=direction, inline_transfer=inline, overwrite_file=True,
            )["file_verified"]  # fmt: skip

        return move

    yield "SSHDetect.autodetect", holds(lambda: SSHDetect(device_type="autodetect", **own).autodetect(), "cisco_")
    yield "find_prompt", holds(link.find_prompt, "#")
    yield "send_command", holds(lambda: link.send_command("show version"), "uptime")
    yield "send_command use_textfsm", holds(lambda: link.send_command("show version", use_textfsm=True), "hostname")
    yield "send_command_timing", holds(lambda: link.send_command_timing("show clock"), ":")
    yield (
        "exit_enable_mode, enable",
        holds(lambda: (link.exit_enable_mode(), link.enable(), link.find_prompt())[2], "#"),
    )
    yield "config_mode, exit_config_mode", holds(lambda: link.config_mode() + link.exit_config_mode(), "config")
    yield "send_config_set", done(lambda: link.send_config_set(["ntp server 198.18.0.1"], error_pattern="%"))
    yield "send_config_from_file", done(lambda: link.send_config_from_file(str(lines), error_pattern="%"))
    yield "save_config", holds(link.save_config, "OK")
    yield "send_multiline ping", holds(
        lambda: link.send_multiline(
            [["ping", r"ip"], ["", r"Target"], [asked["server"], "Repeat"], ["2", "Datagram"], ["", "Timeout"],
             ["", "Extended"], ["", "Sweep"], ["", "#"]]
        ), "Success rate",
    )  # fmt: skip
    yield "send_command expect_string", holds(
        lambda: link.send_command("copy running-config startup-config", expect_string=r"\?")
        + link.send_command("", expect_string="#"), "OK",
    )  # fmt: skip
    yield "file_transfer put", moved("put", inline=False, name="by-scp.txt", file=small)
    yield "file_transfer get", moved("get", inline=False, name="by-scp.txt", file=folder / "back.txt")
    yield "file_transfer inline", moved("put", inline=True, name="inline.txt", file=small)
    yield "disconnect", done(link.disconnect)


def napalm_calls(asked: dict[str, Any], folder: Path) -> Iterator[Call]:
    """All getters of NAPALM's `ios` driver, merge, replace, rollback, ping and traceroute."""
    import napalm

    driver = napalm.get_network_driver("ios")(
        asked["host"], asked["username"], asked["password"],
        optional_args={"secret": asked["secret"], "port": asked["port"], "dest_file_system": asked["flash"]},
    )  # fmt: skip
    driver.open()
    getters = [name for name in dir(driver) if name.startswith("get_")]
    arguments = {"get_route_to": ("198.18.0.0/24",), "get_bgp_config": (), "get_config": ()}
    for name in getters:
        yield name, getter(driver, name, arguments.get(name, ()))
    yield "is_alive", holds(driver.is_alive, "True")
    yield "cli", holds(lambda: driver.cli(["show version"]), "uptime")
    yield "ping", holds(lambda: driver.ping(asked["server"]), "success")
    yield "traceroute", holds(lambda: driver.traceroute(asked["server"]), "success")
    line = "ip host napalm-made 10.1.2.3"

    def merged() -> Any:
        driver.load_merge_candidate(config=line)
        difference = driver.compare_config()
        driver.commit_config()
        return difference + str(line in driver.get_config()["running"])

    yield "merge, compare, commit", holds(merged, line, "True")
    yield "rollback", done(driver.rollback)
    yield "rolled back", lambda: line not in driver.get_config()["running"]

    def discarded() -> Any:
        driver.load_merge_candidate(config=line)
        driver.discard_config()
        return line not in driver.get_config()["running"]

    def replaced() -> Any:
        running = driver.get_config()["running"].replace(
            "\nip forward-protocol nd", f"\n{line}\nip forward-protocol nd"
        )
        driver.load_replace_candidate(config=running)
        difference = driver.compare_config()
        driver.commit_config()
        return difference + str(line in driver.get_config()["running"])

    def confirmed() -> Any:
        driver.load_merge_candidate(config="ip host napalm-later 10.1.2.4")
        driver.commit_config(revert_in=120)
        waiting = driver.has_pending_commit()
        driver.confirm_commit()
        return waiting and not driver.has_pending_commit()

    yield "discard", discarded
    yield "replace, compare, commit", holds(replaced, line, "True")
    yield "rollback of a replace", done(driver.rollback)
    yield "commit revert_in, confirm", confirmed
    yield "close", done(driver.close)


def getter(driver: Any, name: str, arguments: tuple[str, ...]) -> Callable[[], Any]:
    """Return a getter's call; one that the driver does not have is none of the device's."""

    def called() -> Any:
        with contextlib.suppress(NotImplementedError):
            getattr(driver, name)(*arguments)
        return True

    return called


def scrapli_calls(asked: dict[str, Any], folder: Path) -> Iterator[Call]:
    """The calls of scrapli's IOS-XE driver, over its own transport."""
    from scrapli.driver.core import IOSXEDriver

    link = IOSXEDriver(**scrapli_login(asked))
    link.open()
    lines = folder / "lines.txt"
    lines.write_text("interface Loopback8\n description scrapli\n")
    yield "get_prompt", holds(link.get_prompt, "#")
    yield "send_command", holds(lambda: link.send_command("show version").result, "uptime")
    yield "textfsm_parse_output", lambda: link.send_command("show version").textfsm_parse_output() != []
    yield "send_commands", lambda: not link.send_commands(["show clock", "show ip interface brief"]).failed
    yield "send_config", lambda: not link.send_config("ip host scrapli 10.1.1.1").failed
    yield "send_configs", lambda: not link.send_configs(["interface Loopback8", "description x"]).failed
    yield "send_configs_from_file", lambda: not link.send_configs_from_file(str(lines)).failed
    yield "send_config that is refused", lambda: link.send_config("ip tcp nonsense 1").failed
    link.acquire_priv("privilege_exec")
    prompt = link.get_prompt()
    yield (
        "send_interactive",
        lambda: (
            not link.send_interactive(
                [("clear logging", "Clear logging buffer [confirm]", False), ("", prompt, False)]
            ).failed
        ),
    )
    yield "acquire_priv exec", holds(lambda: (link.acquire_priv("exec"), link.get_prompt())[1], ">")
    yield "acquire_priv tclsh", holds(lambda: (link.acquire_priv("tclsh"), link.get_prompt())[1], "(tcl)#")
    yield (
        "acquire_priv configuration",
        holds(lambda: (link.acquire_priv("configuration"), link.get_prompt())[1], "(config)#"),
    )
    yield "close", done(link.close)


def scrapli_login(asked: dict[str, Any]) -> dict[str, Any]:
    """Return what scrapli logs in with."""
    return {
        "host": asked["host"], "port": asked["port"], "auth_username": asked["username"],
        "auth_password": asked["password"], "auth_secondary": asked["secret"], "auth_strict_key": False,
        "ssh_config_file": False, "transport": "paramiko", "timeout_ops": 60,
    }  # fmt: skip


def scrapli_cfg_calls(asked: dict[str, Any], folder: Path) -> Iterator[Call]:
    """The whole cycle of scrapli_cfg: it types the candidate through tclsh."""
    from scrapli.driver.core import IOSXEDriver
    from scrapli_cfg import ScrapliCfg

    link = IOSXEDriver(**scrapli_login(asked))
    link.open()
    configuration = ScrapliCfg(conn=link)
    configuration.prepare()
    line = "ip host scrapli-cfg 10.1.1.2"
    running = configuration.get_config().result
    whole = running.replace("\nip forward-protocol nd", f"\n{line}\nip forward-protocol nd")
    yield "get_version", holds(lambda: configuration.get_version().result, ".")
    yield "get_config startup", lambda: not configuration.get_config("startup").failed
    yield "load_config merge", lambda: not configuration.load_config(line).failed
    yield "diff_config merge", lambda: not configuration.diff_config().failed
    yield "commit_config merge", lambda: not configuration.commit_config().failed
    yield "merged", lambda: line in configuration.get_config().result
    yield (
        "load_config, abort_config",
        lambda: not configuration.load_config(line).failed and not configuration.abort_config().failed,
    )
    yield "load_config replace", lambda: not configuration.load_config(whole, replace=True).failed
    yield "diff_config replace", lambda: not configuration.diff_config().failed
    yield "commit_config replace", lambda: not configuration.commit_config().failed
    yield "cleanup", done(configuration.cleanup)
    yield "close", done(link.close)


def pyntc_calls(asked: dict[str, Any], folder: Path) -> Iterator[Call]:
    """The calls of pyntc's `cisco_ios_ssh`, but for the upgrade (`driver_pyntc.py`)."""
    from pyntc import ntc_device

    device = ntc_device(
        "cisco_ios_ssh", asked["host"], asked["username"], asked["password"], secret=asked["secret"], port=asked["port"]
    )
    image = folder / "pyntc-image.bin"
    image.write_bytes(b"x" * 20_000)
    for name in (
        "hostname",
        "uptime",
        "uptime_string",
        "model",
        "os_version",
        "vendor",
        "config_register",
        "boot_options",
    ):
        yield name, lambda name=name: str(getattr(device, name))
    yield "show", holds(lambda: device.show("show version"), "uptime")
    yield "show of several", lambda: len(device.show(["show clock", "show users"])) == 2
    yield "config", done(lambda: device.config(["interface Loopback9", "description pyntc"]))
    yield "running_config", holds(lambda: device.running_config, "Loopback9")
    yield "startup_config", holds(lambda: device.startup_config, "hostname")
    yield "backup_running_config", done(lambda: device.backup_running_config(str(folder / "backup.cfg")))
    yield "save", device.save
    yield "checkpoint", done(lambda: device.checkpoint("pyntc.cfg"))
    yield "config after checkpoint", done(lambda: device.config("ip host pyntc 10.1.1.3"))
    yield "rollback", done(lambda: device.rollback("pyntc.cfg"))
    yield "rolled back", lambda: "ip host pyntc" not in device.running_config
    yield "file_copy", done(lambda: device.file_copy(str(image)))
    yield "file_copy_remote_exists", lambda: device.file_copy_remote_exists(str(image))
    yield "verify_file", lambda: device.verify_file(device.get_remote_checksum(image.name), image.name)
    yield "set_boot_options", done(lambda: device.set_boot_options(image.name))
    yield "boot_options after", lambda: device.boot_options["sys"] == image.name
    yield "close", done(device.close)


def pyats_calls(asked: dict[str, Any], folder: Path) -> Iterator[Call]:
    """Connect, execute, configure, parse, learn, ping and copy by unicon and Genie."""
    from pyats.topology import loader
    from visitor import described

    testbed = loader.load({"testbed": {"name": "t"}, "devices": {asked["name"]: described(asked)}})
    device = testbed.devices[asked["name"]]
    device.custom.abstraction = {"order": ["os", "platform"]}
    device.connect(log_stdout=False)
    yield "execute", holds(lambda: device.execute("show version"), "uptime")
    yield "execute of several", lambda: len(device.execute(["show clock", "show users"])) == 2
    yield "configure", done(lambda: device.configure(["interface Loopback6", "description pyats"]))
    yield "configure that is refused", lambda: raises(lambda: device.configure("ip tcp nonsense 1"))
    yield "parse", lambda: device.parse("show version") != {}
    yield "ping", holds(lambda: device.ping(asked["server"]), "Success rate is 100")
    for name in ("interface", "platform", "routing", "vrf", "arp", "ntp", "config", "static_routing"):
        yield f"learn {name}", done(lambda name=name: device.learn(name))
    api = device.api
    yield "get_running_config_dict", lambda: api.get_running_config_dict() != {}
    yield "get_interface_names", lambda: api.get_interface_names() != []
    yield (
        "shut_interface, unshut_interface",
        done(lambda: (api.shut_interface("Loopback6"), api.unshut_interface("Loopback6"))),
    )
    yield "config_interface_description", done(lambda: api.configure_interface_description("Loopback6", "api"))
    yield "execute_write_memory", done(api.execute_write_memory)
    yield "get_boot_variables", done(lambda: api.get_boot_variables("current"))
    yield "verify_current_image", lambda: isinstance(api.get_running_image(), (str, list))
    yield "execute_copy_run_to_start", done(api.execute_copy_run_to_start)
    yield (
        "disable, enable",
        holds(lambda: (device.disable(), device.enable(), device.execute("show privilege"))[2], "15"),
    )
    yield "disconnect", done(device.disconnect)


def raises(call: Callable[[], Any]) -> bool:
    """Return whether a call raises."""
    try:
        call()
    except Exception:  # noqa: BLE001 - another's code
        return True
    return False


TOOLS: dict[str, Callable[[dict[str, Any], Path], Iterator[Call]]] = {
    "netmiko": netmiko_calls, "NAPALM": napalm_calls, "scrapli": scrapli_calls, "scrapli_cfg": scrapli_cfg_calls,
    "pyntc": pyntc_calls, "pyATS": pyats_calls,
}  # fmt: skip

if __name__ == "__main__":
    main()
