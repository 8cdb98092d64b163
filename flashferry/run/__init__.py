"""A run over a fleet: waves, queues, slots, retries, deadlines, control; and a device's way through it.

A device is checked, journaled, tuned, copied to, verified, restored and proven, one step after the other;
whatever ends a step, the way leads back through restore. What dead runs left is recovered from here too.
"""
