"""The session with a device: SSH, known hosts, login, prompts, dialogues, and which device answers.

NAPALM and netmiko are used here and nowhere else. A command is sent, its echo is seen, its answer is read to the
prompt, and nothing is typed into a question that has not just been seen. Every session can be written down as a
transcript without secrets.
"""
