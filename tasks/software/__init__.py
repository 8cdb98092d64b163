"""What a device's tables say of its software, topic by topic; put together in `tasks.software_state`."""
