"""The HTML report on a telephone, in a real browser: nothing to scroll sideways, nothing too small for a finger."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import unescape

import pytest

from flashferry.reports.as_html import report_html

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
PROBE = """<!DOCTYPE html><style>body{margin:0}iframe{border:0}</style>
<iframe src="report.html" width="%d" height="3000"></iframe><pre id="found"></pre><script>
onload = function () {
  var page = frames[0].document, width = page.documentElement.clientWidth;
  function all(what) { return Array.prototype.slice.call(page.querySelectorAll(what)); }
  function said(one) { return one.tagName + "." + one.className + ": " + one.textContent.slice(0, 40); }
  document.getElementById("found").textContent = JSON.stringify({
    width: width,
    scrolled: page.documentElement.scrollWidth,
    beyond: all("body *").filter(function (one) {
      var box = one.getBoundingClientRect();
      return box.width && box.right > width + 1 && !one.closest(".wide") && !one.closest("svg");
    }).map(said),
    cut: all(".wide").filter(function (one) { return one.scrollWidth > one.clientWidth + 1; }).map(said),
    small: all("summary, button, input, .cards a").filter(function (one) {
      var box = one.getBoundingClientRect();
      return box.height && box.height < 40;
    }).map(said),
    letters: Math.min.apply(null, all("svg.graph").map(function (one) {
      return 22 * one.getBoundingClientRect().width / one.viewBox.baseVal.width
        * (parseFloat(getComputedStyle(one.querySelector("text")).fontSize) / 22);
    })),
  });
};
</script>"""


def measured(tmp_path, page: str, width: int) -> dict:
    """Return what a browser finds out about a page in a window of so many pixels."""
    (tmp_path / "report.html").write_text(page)
    (tmp_path / "probe.html").write_text(PROBE % width)
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--allow-file-access-from-files"]
    profile = f"--user-data-dir={tmp_path / 'profile'}"
    command = [BROWSER, *options, profile, "--dump-dom", f"file://{tmp_path / 'probe.html'}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    found = re.search(r'<pre id="found">(.+?)</pre>', done.stdout)
    assert found is not None, done.stderr
    return json.loads(unescape(found[1]))


@pytest.mark.skipif(BROWSER is None, reason="needs a browser: chromium")
@pytest.mark.parametrize("width", [400, 320])
def test_a_telephone_shows_it_whole(tmp_path, three, report, width):
    """No wider than the screen, no table cut, controls as large as a finger, and graphs with letters one can read."""
    found = measured(tmp_path, report_html(report(three)), width)
    assert found["scrolled"] <= found["width"] == width
    assert found["beyond"] == []
    assert found["cut"] == []
    assert found["small"] == []
    assert found["letters"] >= (11 if width == 400 else 9)


def test_every_cell_of_a_stacked_table_says_what_it_is(three, report):
    """Where a row becomes a card its heads are gone: a cell carries its own, but for badges, bars and reasons."""
    page = report_html(report(three))
    for table in re.findall(r'<table class="cards".*?</table>', page, flags=re.DOTALL):
        heads = set(re.findall(r'<th scope="col"[^>]*>([^<]+)</th>', table))
        for attributes in re.findall(r"<td([^>]*)>", table.partition("<tbody>")[2]):
            label = re.search(r'data-l="([^"]+)"', attributes)
            if label is None:
                assert re.search(r'class="(right( first)?|bars|free whole)"', attributes), attributes
            else:
                assert label[1] in heads
