"""The session with a device: SSH, known hosts, login, prompts, dialogues, and the device's identity.

Only this package uses NAPALM and netmiko. A command's answer is read from its echo to the prompt, and a question is
only answered while it is the end of the output. Every session can be recorded as a transcript without secrets.
"""
