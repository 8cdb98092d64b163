"""Planning a run over a fleet before it begins: what each device needs, in which waves, how long it takes."""
