"""The databases of a state folder looked after: copied, looked through, rid of what is old."""
