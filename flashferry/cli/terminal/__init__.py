"""The terminal itself: what goes out, what interrupts, and output that nothing waits for."""
