"""A stand-in of containerlab's command line, and of docker's as far as nights use it: two programs to put on PATH.

`standin` writes them and holds their state and switches, `clab` and `docker` are what they do. They deploy nothing: a
node is an entry in a file with a clock. The shapes of what they print, and what they refuse, go by the source of
containerlab 0.79.0 (srl-labs/containerlab 39ff2b7, BSD-3-Clause). Never held against a real one with KVM.
"""
