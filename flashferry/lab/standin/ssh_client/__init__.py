"""The device as an SSH client: `copy scp:` and `copy sftp:` with the channel window, lists and texts of its release."""
