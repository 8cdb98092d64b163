"""Tests wait for events, with one generous limit: no short one, no sleep, no assertion on a clock."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from tests.house.waits import Finding, findings

TESTS = Path(__file__).parents[1]
NOT_READ = {"patience.py", "house/test_waits.py"}
"""The place where tests wait, and this file's samples."""

EXPIRES = "it has to expire, in every course of the test: one that stood still meanwhile finds it expired all the same"
OF_THE_KERNEL = "it has to be passed over: the kernel of a client that stands still answers for it"
OF_A_FUZZER = "a client that never logs in, or never connects, holds a place for so long; to lose it is one of its ends"
OF_A_JUDGED_RUN = "which wait of product and router ends first is left open: the judgements hold for each course"
PURE = "a decision on numbers, or on a clock that is handed in: nothing waits"
SHOWN = "after it a transfer that stands still is shown as stalled, which the test waits for; it goes on all the same"
PACE = "how fast a stand-in or a client sends or reads: the pace is the input, and a slower one changes nothing"
MOMENT = "the moment of an act in mid-run is the input; a later one is as good"
NOTHING = "what must not come has a while to come; load makes it no more likely"

ALLOWED: dict[str, dict[str, str]] = {
    "adversary/limits.py": {"LONGEST_SILENCE_S": OF_A_JUDGED_RUN, "stall_s": OF_A_JUDGED_RUN},
    "adversary/router/copying.py": {"sleep": PACE},
    "adversary/router/ftp.py": {"REPLY_LIMIT_S": OF_A_JUDGED_RUN, "timeout": OF_A_JUDGED_RUN},
    "adversary/router/shell.py": {"sleep": PACE},
    "adversary/router/terminal.py": {"sleep": PACE},
    "browsing.py": {"new_context": "the place that gives pages the one patience"},
    "component/depot/test_bad_sources.py": {
        "stall_s": EXPIRES + "; a sync meets a break more, which it goes on after",
        "wait": PACE,
    },
    "component/depot/test_depot_ends.py": {"return_s": EXPIRES},
    "component/ftpserver/test_active.py": {"data_connect_s": OF_A_FUZZER},
    "component/ftpserver/test_draining.py": {"drain_s": EXPIRES},
    "component/ftpserver/test_fetch.py": {
        "clock": "the date of a record lies between two readings of the wall clock: order, no duration",
        "deadline": "the second of these readings, with the second by which clocks may be rounded",
        "give_up_after_s": EXPIRES,
        "stall_after_s": SHOWN,
        "unacked_limit_s": OF_THE_KERNEL,
    },
    "component/ftpserver/test_fuzz.py": {
        "data_connect_s": OF_A_FUZZER,
        "idle_s": OF_A_FUZZER,
        "login_deadline_s": OF_A_FUZZER,
    },
    "component/ftpserver/test_wan.py": {"fall_back_after_s": EXPIRES, "unacked_limit_s": EXPIRES},
    "component/httpserver/conftest.py": {"stall_after_s": SHOWN},
    "component/httpserver/test_hardening.py": {"sleep": PACE},
    "component/lab/conftest.py": {"timeout": "how often pyftpdlib's loop looks whether it is over"},
    "component/lab/test_http_pulls.py": {"REPLY_TIMEOUT_S": EXPIRES, "reply_timeout_s": EXPIRES},
    "component/nightly/cml/test_connect.py": {"timeout_s": EXPIRES},
    "component/nightly/cml/test_faults.py": {"timeout_s": EXPIRES},
    "component/service/test_access.py": {"sleep": PACE},
    "component/service/test_schedules.py": {"sleep": MOMENT},
    "component/session/test_session_scenes.py": {"limit_s": EXPIRES},
    "component/sshserver/test_fetch.py": {"sleep": PACE},
    "component/sshserver/test_fuzz.py": {"idle_s": OF_A_FUZZER, "login_deadline_s": OF_A_FUZZER},
    "e2e/matrix/activation/acts.py": {"AWAY_LIMIT_S": EXPIRES, "boot_limit_s": EXPIRES},
    "e2e/matrix/activation/faults.py": {"patience_s": EXPIRES},
    "e2e/matrix/activation/player.py": {
        "_LONGEST_BEGIN_S": NOTHING,
        "deadline": NOTHING,
        "sleep": "between two looks for that, and between two recoveries of an operator",
        "wait": "between two looks of a helper that lasts as long as its cell",
    },
    "e2e/matrix/player.py": {"sleep": "between two recoveries, and two runs, of an operator"},
    "e2e/outsiders/driver_pyats.py": {
        "connect_timeout": "as genielibs is called by its users",
        "install_timeout": "the same",
        "sleep": MOMENT,
    },
    "e2e/test_depot.py": {"sleep": MOMENT},
    "e2e/test_depot_sync.py": {"sleep": NOTHING},
    "e2e/test_night.py": {"sleep": "a night lasts longer than the one patience: between two looks, and " + MOMENT},
    "screenshots.py": {"sleep": "a picture is taken once a page has come to rest; a person looks at it"},
    "unit/depot/probing/test_copying.py": {"limit_s": EXPIRES},
    "unit/depot/test_options.py": {"drain_s": PURE},
    "unit/devices/test_scp_source.py": {"timeout": "what is read back of the connection"},
    "unit/devices/test_ssh_client.py": {"settimeout": EXPIRES},
    "unit/devices/test_login.py": {"banner_timeout": EXPIRES},
    "unit/fileserver/test_transfer_reporter.py": {"stall_after_s": PURE},
    "unit/fileserver/test_ticket_service.py": {"lifetime_s": PURE},
    "unit/run/test_slots_pools.py": {"patience_s": EXPIRES},
}
"""What may stand in a file, by what `findings` calls it, and why a test process that stands still is not red for it.

Not for the limit of a wait.
"""


@cache
def found() -> dict[str, tuple[Finding, ...]]:
    """Return what each file of the tests has, by its place below their folder."""
    files = {path.relative_to(TESTS).as_posix(): path for path in sorted(TESTS.rglob("*.py"))}
    read = {name: findings(path.read_text(encoding="utf-8")) for name, path in files.items() if name not in NOT_READ}
    return {name: seen for name, seen in read.items() if seen}


def test_no_test_depends_on_a_time():
    """No limit of a wait under 60 s, no sleep, no assertion on a clock: but for what is listed."""
    wrong = [
        f"tests/{name}:{one.line}: {one.message}"
        for name, seen in found().items()
        for one in seen
        if one.name not in ALLOWED.get(name, {})
    ]
    assert wrong == []


def test_what_is_listed_is_there():
    """An exception that nothing needs any more is removed from the list."""
    stale = [
        f"{name}: {allowed}"
        for name, reasons in ALLOWED.items()
        for allowed in reasons
        if allowed not in {one.name for one in found().get(name, ())}
    ]
    assert stale == []


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("server.wait(5)", ["wait"]),
        ("server.wait(ticket, 0.5)", ["wait"]),
        ("bench.ticket(lifetime_s=0.3)", ["lifetime_s"]),
        ("Limits(login_deadline_s=5, idle_s=600)", ["login_deadline_s"]),
        ('mark("bench", [{"limits": {"data_connect_s": 0.5}}])', ["data_connect_s"]),
        (
            'options = {"profile": {"give_up_after_s": 0.3, "unacked_limit_s": 1}}',
            ["give_up_after_s", "unacked_limit_s"],
        ),
        ("trial.stall_s = 5.0", ["stall_s"]),
        ("subprocess.run(words, timeout=20)", ["timeout"]),
        ("subprocess.run(words, timeout=20 if is_slow else PATIENCE_S)", ["timeout"]),
        ("SHORT = 2 * 5\nsubprocess.run(words, timeout=SHORT)", ["timeout"]),
        ("WITHIN_S = 59.9", ["WITHIN_S"]),
        ("_LONGEST_BOOT_S, OTHER = 20.0, 90.0", ["_LONGEST_BOOT_S"]),
        ("class A:\n    reply_timeout_s: float = 8.0", ["reply_timeout_s"]),
        ("def ask(command, *, limit_s=30.0): ...", ["limit_s"]),
        ("def ask(command, timeout=3, other=None): ...", ["timeout"]),
        ("ends = time.monotonic() + 5", ["deadline"]),
        ("time.sleep(0.2)", ["sleep"]),
        ("from time import sleep\nsleep(pause_s)", ["sleep"]),
        ("async def f():\n    await asyncio.sleep(1)", ["sleep"]),
        ("while not is_so():\n    time.sleep(0.01)", ["sleep"]),
        ("page.wait_for_timeout(500)", ["sleep"]),
        ("async def f():\n    async with asyncio.timeout(5):\n        await g()", ["timeout"]),
        ("threading.Timer(0.1, stop.set).start()", ["Timer"]),
        ("page = browser.new_context(base_url=url).new_page()", ["new_context"]),
        ("def f():\n    assert time.monotonic() < deadline_s", ["clock"]),
        ("def f():\n    assert time.perf_counter() - began < 2", ["clock"]),
        ("def f():\n    a = time.time()\n    g()\n    took = time.time() - a\n    assert took < most_s", ["clock"]),
        ("def f():\n    a, b = process_time(), 1\n    assert 0.5 * (process_time() - a) < b", ["clock"]),
        ("with pytest.raises(ServerGone):\n    server.wait(5)", ["wait"]),
        ("with pytest.raises(TimeoutError):\n    time.sleep(3)", ["sleep"]),
    ],
)
def test_what_depends_on_a_time_is_found(source, names):
    """Each kind, with its line."""
    seen = findings(source)
    assert [one.name for one in seen] == names
    assert all(one.line > 0 and one.name.split("_")[0] in one.message for one in seen)


@pytest.mark.parametrize(
    "source",
    [
        "server.wait(PATIENCE_S)",
        "subprocess.run(words, timeout=PATIENCE_S)",
        "subprocess.run(words, timeout=60)",
        "until(lambda: found, 'an event')",
        "select.select([one], [], [], 0)",
        "Visitor(pool, patience_s=0.0)",
        "', '.join(words)",
        "counts.get(name, 0)",
        "counts.get(name, 5)",
        "Limits(limit=2)",
        "bench.ticket(lifetime_s=PATIENCE_S)",
        'options = {"idle_s": 600, "sample_interval_s": 0.05, "failed_login_delay_s": 0.05}',
        "path.run(30)",
        "now.clock.sleep(5)",
        "await_ = asyncio.sleep(0)",
        "deadline = Deadline.after(within_s)",
        "threading.Timer(PATIENCE_S, queue.put, (0,))",
        "def f():\n    started = time.monotonic()\n    return Finding(seconds=time.monotonic() - started)",
        "def f():\n    now = time.time()\n    assert found == 3",
        "def f():\n    assert plan.duration_s > 0",
        "with pytest.raises(TimeoutError):\n    socket.create_connection(address, timeout=0.4)",
        "with in_core(), pytest.raises(httpx.ReadTimeout):\n    client.get(url, timeout=0.4)",
        "'time.sleep(5)'",
    ],
)
def test_what_does_not_is_left_alone(source):
    """A generous limit, no wait at all, a clock that is handed in, and a time-out that is expected."""
    assert findings(source) == ()
