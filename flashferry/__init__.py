"""Ferries OS images to the flash of Cisco IOS and IOS-XE devices, fast, and leaves nothing behind but the image."""
