"""Pure facts and arithmetic about TCP: no sockets, no clock."""
