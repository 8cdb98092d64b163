"""Run nights: start a lab, run flashferry on it, compare the result with earlier nights, and remove the lab.

`flashferry nightly run` is started by cron, a systemd timer or a CI server; labs run on Cisco Modeling Labs. The
product runs in processes of its own, so that it can be killed for real. Every failure belongs to the lab, a device, the
product or the clean-up (`night.Fault`), each with its own exit code. Setup: docs/nightly.md.
"""
