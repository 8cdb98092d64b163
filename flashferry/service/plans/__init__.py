"""Plans: offered, compared, approved by another user, and refused once anything changed.

A plan is the text that `flashferry plan --output` writes. Its digest identifies it, and an approval is for that digest;
it holds only while the images are unchanged, the window is open, and maker and approver keep their roles.
"""
