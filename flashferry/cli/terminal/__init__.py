"""Terminal handling: output, interrupts, questions."""
