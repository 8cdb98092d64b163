"""pyntc's remote file copy: the device pulls from a server that is not its business."""

import hashlib
import json
import sys
from pathlib import Path

from pyntc import ntc_device
from pyntc.utils.models import FileCopyModel

asked = json.load(sys.stdin)
device = ntc_device(
    "cisco_ios_ssh", asked["host"], asked["username"], asked["password"], secret=asked["secret"], port=asked["port"]
)  # fmt: skip
content = Path(asked["path"]).read_bytes()
digest = hashlib.md5(content, usedforsecurity=False).hexdigest()
model = FileCopyModel(
    download_url=asked["url"], checksum=digest, file_name=asked["name"], file_size=len(content), hashing_algorithm="md5"
)
device.remote_file_copy(model, file_system=asked["file_system"])
print("copied")
