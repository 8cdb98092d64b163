"""Image files on this host: which are served, their sizes and digests, and which devices they are for.

Only the catalogue turns a name into a path. A digest is computed once for each state of a file and cached. Published
digests are compared before any device is changed; `image_platform_match` decides whether an image
is for the platform of a device.
"""
