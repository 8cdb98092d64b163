"""The run of one device: `device_run.DeviceRun` holds its state, and each module has the functions of a step.

`workflow` calls the steps in order. The journal is written before anything is sent, and the device is restored whatever
was raised.
"""
