"""Sample worlds, as data: `flashferry lab up NAME` starts one."""
