"""What a night leaves behind to be read: a folder with its report, its page, its JUnit, and what the lab printed.

All of it is made of the night's values and its history (`report`); nothing of a night is measured or judged here. A
folder is whole before it has its name, so that a folder that is there is whole.
"""

from flashferry.nightly.artefacts.folder import write_artefacts
from flashferry.nightly.artefacts.page import history_html

__all__ = ["history_html", "write_artefacts"]
