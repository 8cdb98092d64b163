"""What anybody must be able to do with a page, looked at in a browser: read it, hear it, reach all of it by keyboard.

A handful of WCAG 2.2's criteria at level AA that a program can tell: names of controls and pictures (1.1.1, 4.1.2),
heads and tables (1.3.1), contrast (1.4.3, 1.4.11), reflow (1.4.10), keyboard and focus (2.1.1, 2.4.3, 2.4.7), titles
and language (2.4.2, 3.1.1). What they do not tell, such as whether a word says what it means, a person has to look at.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page

_FOCUSABLE = (
    "a[href], button:not(:disabled), input:not(:disabled):not([type=hidden]), select:not(:disabled), "
    "textarea:not(:disabled), summary, [tabindex='0']"
)

_LOOK = Path(__file__).with_name("faults.js").read_text()

_KEYS = """
(selector) => {
  const open = [...document.querySelectorAll(selector)]
    .filter((one) => one.checkVisibility({visibilityProperty: true}) && one.tabIndex >= 0);
  open[0].focus();
  window.stops = [0];
  window.unseen = [];
  addEventListener("focusin", ({target}) => {
    const style = getComputedStyle(target);
    window.stops.push(open.indexOf(target));
    if (style.outlineStyle === "none" || parseFloat(style.outlineWidth) < 2) window.unseen.push(target.outerHTML);
  });
  return open.length;
}
"""


def faults_of(page: Page) -> list[str]:
    """Return what is wrong with a page that is open in a browser, each in a sentence with what it is of."""
    found: list[str] = page.evaluate(_LOOK)
    return found


def unreached_of(page: Page) -> list[str]:
    """Return what of a page a keyboard does not reach in the order of the page, or reaches without being seen to."""
    page.reload()
    count = page.evaluate(_KEYS, _FOCUSABLE)
    for _ in range(count - 1):
        page.keyboard.press("Tab")
    reached, unseen = page.evaluate("[stops, unseen]")
    found = [f"no outline that is seen: {one[:140]}" for one in unseen]
    if reached != list(range(count)):
        found.append(f"expected {count} stops in the order of the page, found {reached}")
    return found
