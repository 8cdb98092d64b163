"""Nights: a lab is taken up, the tool runs on it for real, the night is judged, and nothing is left running.

One command, run by cron, a systemd timer or a CI server. What takes labs up is behind a small protocol (`backend`):
Cisco Modeling Labs. The tool itself is run as a person runs it, in processes of its own, so that a
kill is a kill. Whatever goes wrong is one of four faults (`faults`): the lab's, a device's, the product's, or the
clean-up's; each has an exit code of its own. docs/nightly.md says how it is set up.
"""
