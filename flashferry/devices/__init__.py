"""The session with a device: SSH, known hosts, login, prompts, dialogues, and who it is that answers.

NAPALM and netmiko are behind this door and nowhere else. A command is sent, its echo is seen, its answer is read to the
prompt, and nothing is typed into a question that has not just been seen. Every session can be written down as a
transcript without secrets.
"""
