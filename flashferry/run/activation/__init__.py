"""Activate staged images: restart devices in rounds; each phase is in the journal before its command."""
