"""containerlab as the second backend of nights, by its own command line. Never tried with KVM or a real image.

Everything here goes by the sources of containerlab and vrnetlab and by a stand-in of the command line
(`flashferry/lab/containerlab`); no router has booted by it yet.
"""
