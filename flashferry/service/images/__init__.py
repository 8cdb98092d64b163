"""Images: uploaded in pieces, hashed on arrival, compared with what the vendor published, chosen as golden.

Plans may use only published images, and those that an admin approved. The tables decide; files follow them: uploads,
removed and mismatching files are kept in folders that no file server reads.
"""
