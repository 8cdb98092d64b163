"""Images as a team has them: sent in pieces, hashed as they arrive, held against what the vendor published.

Only one that was published, or that an admin vouched for, may be used by plans; which one a model is to have at a site
is its golden image. What the tables say counts, and the files follow: one that arrives, was taken away or is not what
was published lies beside the folder's images, where nothing that serves files looks.
"""
