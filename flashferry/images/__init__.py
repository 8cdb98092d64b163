"""Image files on our side: which are on offer, their sizes and digests, and which devices they are for.

The catalogue is the only place where a name becomes a path. A digest is computed once for each state of a file and
kept. Published digests are compared before any device is changed; `families` and `fit` decide whether an image is for
the platform of a device.
"""
