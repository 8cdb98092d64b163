"""Offer images, manifests, plans and a list of images to the depots of other sites.

Each site has its own login, and its fetches count for the site: its depot and its devices share one cap. New files are
offered without a restart; files that change while they are read are not offered.
"""
