"""What every platform keeps to: its lines are known again, and its questions have answers that destroy nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from flashferry.devices.platforms import PLATFORMS, platform_named, recognize
from flashferry.devices.platforms.platform import Offered, Platform, Setting, ValueKind
from flashferry.transports import USUAL
from tasks.tcp_config import is_ours_to_type, plan_tune, tcp_lines

SHOW_VERSION = Path(__file__).parents[3] / "captures" / "show_version"

each_platform = pytest.mark.parametrize("platform", PLATFORMS, ids=lambda one: one.name)


@pytest.mark.parametrize(
    ("capture", "name"),
    [
        ("1783_cms20dn", "ios-xe"),
        ("2811", "ios"),
        ("c3850_stack", "ios-xe"),
        ("c8000v", "ios-xe"),
        ("c9500_install_mode", "ios-xe"),
        ("csr1000v", "ios-xe"),
    ],
)
def test_a_platform_is_known_by_show_version(capture, name):
    """By the first line, or by the train in the second where there is none."""
    assert recognize((SHOW_VERSION / f"{capture}.txt").read_text()).name == name


@each_platform
def test_a_platform_is_found_by_its_name(platform: Platform):
    """The word that plans and journals have."""
    assert platform_named(platform.name) is platform


@each_platform
def test_the_worst_is_no_better_than_what_is_usual(platform: Platform):
    """A limit that is nearer than the forecast would end good copies."""
    found = platform.defaults
    assert found.window_bytes <= found.typical_window_bytes
    assert found.hash_bytes_per_s <= found.typical_hash_bytes_per_s


def test_what_nobody_knows_is_taken_for_ios():
    """Lines are still journaled and proven; a wrong guess is refused by the device's own words."""
    assert recognize("Some Other OS, Version 1").name == "ios"


@each_platform
def test_what_is_set_is_read_again_and_may_be_typed(platform: Platform):
    """Every setting that a plan may hold is found in a configuration that shows it, and is one of ours to put back."""
    nothing = tcp_lines("", platform)
    plan = plan_tune(
        nothing,
        platform=platform,
        transport=USUAL,
        window_bytes=platform.tcp.largest_window_bytes,
        extras=platform.tcp.extras,
    )
    assert {one.keyword for one in plan.changes} == {one.keyword for one in platform.tcp.all}
    shown = tcp_lines("\n".join(plan.commands), platform)
    assert [shown.of(one.keyword) for one in plan.changes] == list(plan.commands)
    assert shown.window_bytes == platform.tcp.largest_window_bytes
    assert all(map(is_ours_to_type, plan.changes))


@each_platform
def test_the_windows_of_channels(platform: Platform):
    """Each has a range, a line that is read again, and a way back to what a release has by itself."""
    assert platform.ssh.default_bytes > 0
    for one in platform.ssh.windows:
        assert one.smallest_bytes <= one.least_try_bytes <= one.largest_bytes
        line = one.setting.line(one.largest_bytes)
        assert tcp_lines(line, platform).of(one.setting.keyword) == line
        assert one.window_of(line) == one.largest_bytes
        assert one.window_of(one.setting.command) == one.setting.usual
        assert one.window_of(one.setting.off(line)) == one.window_of(None) == one.window_of("ip ssh version 2") == 0
        assert all(map(one.setting.may_be_typed, (line, one.setting.off(line), one.setting.command)))
        assert not one.setting.may_be_typed(f"{line} reload")


@each_platform
def test_no_answer_destroys_anything(platform: Platform):
    """Enter goes where a name is offered or the copy is given up; all else is answered with no."""
    for one in platform.copying.questions:
        assert one.answer.strip() in {"", "n", "no"}, one.name
        assert one.answer.strip() or one.offers is Offered.TARGET or one.ends_copy, one.name


@each_platform
def test_a_question_names_what_it_is_about(platform: Platform):
    """The name that is confirmed is the one group of the pattern."""
    for one in platform.deleting:
        assert one.pattern.groups == 1, one.name
    assert [one.pattern.groups for one in platform.copying.questions if one.offers is Offered.TARGET] == [1]


@each_platform
def test_commands(platform: Platform):
    """A path is never given without the command that it belongs to, and the VRF comes last."""
    path = "flash:x.bin"
    asked = (platform.list_command, platform.read_command, platform.delete_command, platform.signature_command)
    commands = [ask(path) for ask in asked]
    commands += [platform.digest_command(one, path) for one in platform.verifying.algorithms]
    assert len(set(commands)) == len(commands)
    assert all(command.endswith(f" {path}") for command in commands)
    assert (
        platform.copy_command("a://b/x.bin", path, "Mgmt") == f"{platform.copy_command('a://b/x.bin', path)} vrf Mgmt"
    )


WINDOW = Setting(keyword="window-size", command="ip tcp window-size", tail=r" \d+", kind=ValueKind.BYTES)


@pytest.mark.parametrize(
    ("line", "is_set", "is_typed"),
    [
        ("ip tcp window-size 65535", True, True),
        ("no ip tcp window-size 65535", True, True),
        ("ip tcp window-size", True, False),
        ("ip tcp window-size 65535 ; reload", True, False),
        ("ip tcp window-sizes 65535", False, False),
        ("ip tcp timestamp", False, False),
    ],
)
def test_the_lines_of_a_setting(line, is_set, is_typed):
    """Whole words only, and nothing is typed that we would not have planned."""
    assert WINDOW.is_set_by(line) is is_set
    assert WINDOW.may_be_typed(line) is is_typed


@pytest.mark.parametrize(
    ("line", "value"), [("ip tcp window-size 65535", "65535"), ("no ip tcp window-size 65535", ""), ("ip tcp ecn", "")]
)
def test_the_value_of_a_setting(line, value):
    """Behind its command, whatever its keyword is."""
    assert WINDOW.value_in(line) == value
