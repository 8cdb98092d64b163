"""Steps of an activation: services before and after, the boot order, the restart into another image."""
