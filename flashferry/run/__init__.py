"""Run a fleet: waves, queues, concurrency limits, retries, deadlines, and the steps of each device.

A device is checked, journaled, tuned, copied to, verified and restored, in this order; whatever ends a step, the device
is restored. Devices that killed runs left changed are recovered from here too.
"""
