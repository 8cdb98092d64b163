"""How many places of a device hold an image, as far as a check sees it."""

from __future__ import annotations

import pytest

from tasks.file_system import count_others
from templates.version import parse_version
from tests.unit.tasks.test_distribute import FILE_SYSTEMS, VERSION

ROUTER = """\
File Systems:

       Size(b)       Free(b)      Type  Flags  Prefixes
*   1940303872    1036210176      disk     rw   bootflash:
     256487424     256487424      disk     rw   flash1:{more}
"""


def test_a_stack_tells_its_members_without_a_question() -> None:
    """Three switches are two others; the alias `stby-flash:` of the second is no third one."""
    version = parse_version(VERSION.format(mode="BUNDLE"))
    assert count_others(version, lambda: pytest.fail("the file systems were asked"), "flash:") == 2
    alone = parse_version("".join(VERSION.format(mode="BUNDLE").splitlines(keepends=True)[:5]))
    assert count_others(alone, lambda: FILE_SYSTEMS.replace(" stby-flash:", ""), "flash:") == 0


@pytest.mark.parametrize(
    ("more", "others"), [("", 0), ("\n    1940303872    900000000   disk   rw   stby-bootflash:", 1)]
)
def test_a_router_lists_the_flash_of_its_other_supervisor(more, others) -> None:
    """By the name of the active one's; a second flash card is no supervisor."""
    version = parse_version('System image file is "bootflash:asr1000.bin"\n')
    assert count_others(version, lambda: ROUTER.format(more=more), "bootflash:") == others
