"""A speed test that compares transports, in a report: each copy has its own rate and verdict."""

from __future__ import annotations

from copy import deepcopy
from html import unescape

from flashferry.cli.view.report_table import report_text
from flashferry.core.values import replace
from flashferry.reports.as_html import report_html
from flashferry.reports.model import Report
from tests.unit.reports.conftest import real_record, reported, stored_device, stored_run


def compared() -> Report:
    """Return the report of a device that took HTTP fast, SFTP slowly, and SCP not at all."""
    record = real_record("xe_probed")
    arms = {name: deepcopy(record["probe"]["tuned"]) for name in ("http", "sftp")}
    arms["http"] |= {"steady_bytes_per_s": 5.5e6}
    arms["http"]["verdict"] |= {"kind": "bandwidth", "sentence": "Bandwidth."}
    arms["sftp"] |= {"steady_bytes_per_s": 0.25e6}
    arms["sftp"]["verdict"] |= {"kind": "ssh window", "sentence": "SSH window."}
    rows = [{"transport": name, "arm": arm, "is_best": name == "http"} for name, arm in arms.items()]
    rows.append({"transport": "scp", "arm": None, "reason": "no algorithm in common"})
    record["probe"] |= {"as_is": None, "tuned": None, "by_transport": rows}
    return reported(stored_run(stored_device("xe1", record | {"transport": "http"}), verb="probe"))


def test_a_device_has_the_rate_and_the_verdict_of_the_fastest():
    """They were those of the copy that happened to be the last one."""
    (device,) = compared().devices
    assert device.tuned is not None
    assert (device.tuned.bytes_per_s, device.tuned.source) == (5.5e6, "this speed test, to null:, by http")
    assert device.verdict is not None
    assert device.verdict.kind == "bandwidth"


def test_each_copy_has_a_line_of_its_own():
    """By which transport, how fast, limited by what; and why there was none."""
    rows = [row.split() for row in report_text(compared()).splitlines()]
    assert ["xe1", "http", "*", "5.50", "MB/s", "bandwidth"] in rows
    assert ["xe1", "sftp", "0.250", "MB/s", "ssh", "window"] in rows
    assert "xe1: no copy by scp: no algorithm in common" in report_text(compared())


def test_the_page_has_them_too():
    """Below the device."""
    page = report_html(compared())
    chosen = "<b>what <code>--transport auto</code> takes first</b>"
    assert f"<dt>By HTTP</dt><dd>5.50 MB/s, limited by bandwidth, {chosen}</dd>" in page
    assert "<dt>By SFTP</dt><dd>0.250 MB/s, limited by ssh window</dd>" in page
    assert "no copy: no algorithm in common" in page


def test_a_speed_test_by_one_transport_has_none_of_this():
    """It reads as before."""
    report = reported(stored_run(stored_device("xe1", real_record("xe_probed")), verb="probe"))
    assert report.devices[0].compared == ()
    assert "Copies by each transport" not in report_text(report)


def test_the_lines_of_the_startup_configuration_are_named_by_what_was_set():
    """SSH's too, where one was; by FTP it reads as it always did."""
    record = real_record("xe_staged")
    page = unescape(report_html(reported(stored_run(stored_device("xe1", record)))))
    assert "Startup configuration's ip tcp lines equal to the start." in page
    channel = {"keyword": "ssh bulk-mode", "before": None, "ours": "ip ssh bulk-mode 1250000"}
    by_scp = record | {"transport": "scp", "changes": [*record["changes"], channel]}
    page = unescape(report_html(reported(stored_run(stored_device("xe1", by_scp)))))
    assert "Startup configuration's ip tcp and ip ssh lines equal to the start." in page


def test_each_transfer_is_titled_by_its_transport_where_they_differ():
    """FTP's too, beside others; alone it needs no name."""
    device = stored_device("xe1", real_record("xe_staged"))
    (copy,) = device.transfers
    alone = report_html(reported(stored_run(device)))
    assert "<h3>Copy, tuned to bootflash:" in alone
    assert " by FTP, " not in alone
    by_http = replace(copy, record=copy.record | {"transport": "http"})
    both = report_html(reported(stored_run(replace(device, transfers=(copy, by_http)))))
    assert " by FTP, " in both
    assert " by HTTP, " in both
