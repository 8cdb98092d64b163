"""Topologies that tests give to a stand-in controller, as clients write them."""

from __future__ import annotations

_HEAD = """
lab: {{title: {title}, description: "", notes: "", version: 0.3.0}}
annotations: []
smart_annotations: []
nodes:
- {{id: n0, label: mgmt, node_definition: external_connector, x: -400, y: 0,
   configuration: [{{name: default, content: System Bridge}}],
   interfaces: [{{id: i0, label: port, slot: 0, type: physical}}]}}
"""
_PORTS_OF_XE = """\
   interfaces: [{id: i0, label: Loopback0, type: loopback},
                {id: i1, label: GigabitEthernet1, slot: 0, type: physical}]}
"""

ONE_ROUTER = f"""\
{_HEAD.format(title="one router")}\
- {{id: n1, label: xe1, node_definition: cat8000v, x: 0, y: 0, tags: [site-a],
   configuration: [{{name: iosxe_config.txt, content: "hostname xe1"}}],
{_PORTS_OF_XE}\
links:
- {{id: l0, n1: n0, i1: i0, n2: n1, i2: i1, label: wan, conditioning: {{bandwidth: 50000, latency: 50, loss: 0.01}}}}
"""
"""A router behind a connector, on a link with a condition."""

TWO_ROUTERS = f"""\
{_HEAD.format(title="two routers")}\
- {{id: n1, label: lan, node_definition: unmanaged_switch, x: -200, y: 0, interfaces: [
   {{id: i0, label: port0, slot: 0, type: physical}}, {{id: i1, label: port1, slot: 1, type: physical}},
   {{id: i2, label: port2, slot: 2, type: physical}}]}}
- {{id: n2, label: xe1, node_definition: cat8000v, image_definition: cat8000v-17-16-01a, x: 0, y: 0, tags: [site-a],
   configuration: [{{name: iosxe_config.txt, content: "hostname xe1"}}, {{name: more.txt, content: "more"}}],
{_PORTS_OF_XE}\
- {{id: n3, label: xe2, node_definition: csr1000v, image_definition: null, x: 0, y: 99, tags: [],
   configuration: "hostname xe2", interfaces: [{{id: i1, label: GigabitEthernet1, slot: 0, type: physical}}]}}
links:
- {{id: l0, n1: n0, i1: i0, n2: n1, i2: i0, label: out}}
- {{id: l1, n1: n1, i1: i1, n2: n2, i2: i1, label: wan1, conditioning: {{bandwidth: 50000, latency: 50, loss: 0.01}}}}
- {{id: l2, n1: n1, i1: i2, n2: n3, i2: i1, label: wan2, conditioning: {{}}}}
"""
"""Two routers behind a switch: one with an image and a condition, one with neither; configured in both forms."""
