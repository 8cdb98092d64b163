"""The product is run in processes of its own: its login by the environment, its exit code its own, a kill a kill."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from flashferry.nightly import product as module
from flashferry.nightly.backend import Deadline, NightStopped, StoppableClock, SystemClock
from flashferry.nightly.night import NodeLogin
from flashferry.nightly.product import ProductProcesses, end, is_copying, product_environment
from tests.patience import PATIENCE_S, until

LOGIN = NodeLogin(username="lab", password="secret-of-the-lab")


@pytest.fixture
def product(tmp_path):
    return ProductProcesses(tmp_path, tmp_path / "inventory", LOGIN, dict(os.environ))


def soon():
    return Deadline.after(PATIENCE_S)


def played(tmp_path, code):
    """Return a folder with a program in the place of flashferry, to be put on the path."""
    folder = tmp_path / "program" / "flashferry"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    (folder / "__main__.py").write_text(code)
    return {**os.environ, "PYTHONPATH": str(folder.parent)}


def test_a_command_s_document_words_and_code_are_taken(product):
    """`check` without an inventory: exit code 2, and the sentence as JSON."""
    found = product.run("check", "check", (), deadline=soon())
    assert (found.exit_code, found.is_late) == (2, False)
    assert found.document["verb"] == "check"
    assert found.said.startswith("flashferry: error:")
    assert set(product.files()) == {"product/check.json", "product/check.txt"}


def test_the_routers_login_goes_by_the_environment_and_the_controllers_does_not(tmp_path):
    """Nor do settings of whoever started the night; where devices reach this host stays."""
    given = {
        "PATH": "/bin",
        "FLASHFERRY_CML_PASSWORD": "controller",
        "VIRL2_PASS": "controller",
        "FLASHFERRY_INVENTORY": "elsewhere",
        "FLASHFERRY_ADDRESS": "192.0.2.1",
    }
    assert product_environment(given, LOGIN, tmp_path) == {
        "PATH": "/bin",
        "FLASHFERRY_ADDRESS": "192.0.2.1",
        "FLASHFERRY_STATE_DIR": str(tmp_path),
        "FLASHFERRY_USERNAME": "lab",
        "FLASHFERRY_PASSWORD": "secret-of-the-lab",
    }


def test_no_secret_stands_on_a_command_line(product, monkeypatch):
    seen = []
    plain = subprocess.Popen

    def popen(command, **options):
        seen.append(command)
        return plain([sys.executable, "-c", ""], **options)

    monkeypatch.setattr(module.subprocess, "Popen", popen)
    product.run("stage", "stage", ("--image", "x.bin"), deadline=soon())
    assert "--json" in seen[0]
    assert not [word for word in seen[0] if "secret-of-the-lab" in word]


COPIES = """
import json, sys, time
events = open(sys.argv[sys.argv.index("--events") + 1], "w")
for number in range(10_000):
    progress = {"acked_bytes": 1000 * number, "size_bytes": 10_000_000}
    event = {"step": "pull", "status": "progress", "run_id": "run-7", "progress": progress}
    print(json.dumps(event), file=events, flush=True)
    time.sleep(0.1)
"""


def test_a_run_is_killed_as_soon_as_bytes_have_arrived(tmp_path):
    """With SIGKILL, and the run's name is known from its events."""
    product = ProductProcesses(tmp_path / "p", tmp_path, LOGIN, played(tmp_path, COPIES))
    found = product.killed("kill", "stage", (), deadline=soon())
    assert (found.exit_code, found.run_id, found.is_late) == (-9, "run-7", False)


def test_a_command_whose_time_is_over_is_ended_and_told_first(tmp_path):
    """So that it may restore its devices: SIGTERM, and its own exit code."""
    code = "import signal, sys, time\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(6))\ntime.sleep(60)"
    product = ProductProcesses(tmp_path / "p", tmp_path, LOGIN, played(tmp_path, code))
    found = product.run("check", "check", (), deadline=Deadline.after(2.0))
    assert (found.exit_code, found.is_late) == (6, True)


def test_a_stopped_night_leaves_no_process(tmp_path, monkeypatch):
    """Not even one that its command started and that hears no SIGTERM."""
    monkeypatch.setattr(module, "SERVER_END_S", 0.3)
    code = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import signal, time; "
        "signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)'])\n"
        f"open({str(tmp_path / 'pid')!r}, 'w').write(str(child.pid))\n"
        "time.sleep(60)"
    )
    product = ProductProcesses(tmp_path / "p", tmp_path, LOGIN, played(tmp_path, code))
    clock = StoppableClock(SystemClock(), lambda: (tmp_path / "pid").exists() and bool((tmp_path / "pid").read_text()))
    with pytest.raises(NightStopped):
        product.run("check", "check", (), deadline=Deadline.after(20.0, clock))
    pid = int((tmp_path / "pid").read_text())
    stat = Path(f"/proc/{pid}/stat")
    assert not stat.exists() or stat.read_text().split()[2] == "Z"


def test_ending_what_has_ended_is_no_error():
    process = subprocess.Popen([sys.executable, "-c", ""], start_new_session=True)
    process.wait()
    end(process)
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("lines", "is_under_way"),
    [
        ([{"step": "pull", "progress": {"acked_bytes": 1}}], True),
        ([{"step": "pull", "progress": {"acked_bytes": 0}}], False),
        ([{"step": "pull", "progress": None}, {"step": "check", "progress": {"acked_bytes": 5}}], False),
        ([], False),
    ],
)
def test_a_copy_is_under_way_when_bytes_were_acknowledged(tmp_path, lines, is_under_way):
    """A line that is half written counts for nothing."""
    path = tmp_path / "events.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"step": "pu')
    assert is_copying(path) is is_under_way


def test_no_file_of_events_is_no_copy(tmp_path):
    assert not is_copying(tmp_path / "none")


def test_a_night_that_is_killed_has_its_product_told_to_end(tmp_path):
    """Whatever kills the night: its command hears SIGTERM, and goes by itself."""
    code = (
        "import os, signal, sys, time\n"
        f"signal.signal(signal.SIGTERM, lambda *_: (open({str(tmp_path / 'told')!r}, 'w').write('x'), sys.exit(0)))\n"
        f"open({str(tmp_path / 'ready')!r}, 'w').write('x')\n"
        f"time.sleep({2 * PATIENCE_S})"
    )
    script = (
        "import os, sys; from pathlib import Path\n"
        "from flashferry.nightly.backend import Deadline; from flashferry.nightly.night import NodeLogin\n"
        "from flashferry.nightly.product import ProductProcesses\n"
        "login = NodeLogin(username='lab', password='secret-of-the-lab')\n"
        "given = {**os.environ, 'PYTHONPATH': sys.argv[2]}\n"
        "product = ProductProcesses(Path(sys.argv[1]), Path('x'), login, given)\n"
        "product.run('check', 'check', (), deadline=Deadline.after(600.0))"
    )
    given = played(tmp_path, code)
    night = subprocess.Popen([sys.executable, "-c", script, str(tmp_path / "p"), given["PYTHONPATH"]])
    until((tmp_path / "ready").exists, "the command runs")
    night.kill()
    night.wait()
    until((tmp_path / "told").exists, "the command got SIGTERM")


def test_no_secret_of_the_controller_is_in_the_products_own_environment(tmp_path):
    """Asked of the process itself, whatever the night was started with."""
    given = {name: f"{name}-of-the-controller" for name in ("FLASHFERRY_CML_PASSWORD", "VIRL2_PASS", "CML_TOKEN")}
    code = "import json, os; print(json.dumps(dict(os.environ)))"
    found = ProductProcesses(tmp_path, tmp_path / "inventory", LOGIN, played(tmp_path, code) | given).run(
        "check", "check", (), deadline=soon()
    )
    assert found.document["FLASHFERRY_PASSWORD"] == LOGIN.password
    assert "of-the-controller" not in json.dumps(dict(found.document))
