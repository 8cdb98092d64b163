"""One device's way through a run, composed of parts that each do one thing; `way` puts them together."""
