"""One device in a run: `device_run.DeviceRun` holds its state, and each module has the functions of a step.

`workflow` calls the steps in their order. The journal is written before anything is sent, and restoring follows
whatever was raised.
"""
