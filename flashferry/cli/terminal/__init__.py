"""The terminal itself: what goes out, what interrupts, and what nobody has to wait for."""
