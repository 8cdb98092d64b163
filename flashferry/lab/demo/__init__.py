"""The demos: scenes on a lab, played with the commands that a person would type, and judged by what the lab sees."""
