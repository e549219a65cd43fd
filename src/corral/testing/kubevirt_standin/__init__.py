"""A stand-in for the controllers of KubeVirt and CDI: it is not them, it does what their documentation says.

    standin = KubeVirtStandIn(client, pace_s=1.0)
    task = asyncio.create_task(standin.run())

It looks at every DataVolume, claim, VirtualMachine, migration, snapshot and restore, and takes each one step further at
each look, through the same phases, progress, conditions and finalizers as the real controllers. On demand things fail
(`failing`, `failing_moves`, `unschedulable`, `without_snapshots`) and guests end (`ending`). What the real admission
webhooks would refuse is collected in `refused`, since definitions alone let it through; a test asserts that it is
empty. What it cannot play itself is in `troubles`.
"""

from corral.testing.kubevirt_standin.standin import KubeVirtStandIn

__all__ = ["KubeVirtStandIn"]
