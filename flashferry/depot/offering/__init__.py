"""What a depot offers to the depots of other sites: images, their manifests, plans, and a list of them.

Each site has a login of its own, and what it fetches counts under that site's name: its depot and its devices share one
cap. What is new in the catalogue is offered without a restart; files that change while they are read are not.
"""
