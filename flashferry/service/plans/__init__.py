"""Plans: offered, compared, approved by another user, and not startable once anything changed.

A plan is the text that `flashferry plan --output` writes; its digest is its name, and an approval is for that digest.
It
holds only while the images are unchanged, the window is open, and maker and approver still have their roles.
"""
