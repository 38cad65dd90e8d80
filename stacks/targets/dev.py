"""dev: the whole platform as processes on this machine."""

from __future__ import annotations

from components.node_pool.component import NodePool
from stacks.platform import Target

DEV = Target(node_pool=NodePool)
