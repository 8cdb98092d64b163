"""Other tools that stage images, each driven by a small script in a virtual environment of its own.

The scripts (`driver_*.py`) are run by that environment's Python, not imported here. A script gets a JSON object
(device, file, server) on its standard input, for arguments are everybody's to see. It says by its exit code whether
the image is on the flash; its last line says why not.
"""
