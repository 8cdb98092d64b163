"""Plans as a team has them: offered, compared, approved by somebody else, and not startable once anything changed.

A plan is the text that `flashferry plan --output` writes; its digest is its name. An approval is for that digest. It is
in force only while the images on disk are those that the plan names, its window is open, and its maker and its
approver still may do at its sites what they did: that is worked out anew whenever somebody asks.
"""
