"""The figures of `benchmarks.pace` as tables."""
from typing import Any
Part = dict[str, Any]
BEGIN, END = "<!-- pace: begin -->", "<!-- pace: end -->"
def to_markdown(kept): return ""
def missed(kept): return []
