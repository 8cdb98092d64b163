"""Image store: upload, verification against the vendor's published hashes, golden images, removal.

Plans can use only images that are published or approved by an admin. The database decides and files follow: uploads,
removed and mismatching files are in folders that no file server reads.
"""
