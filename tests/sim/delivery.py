"""What Corral's Controller does beside a NodeSet, as far as that one notices: slurmctld gets the lines of partitions.

As `kinds.controller.files` writes them: one for each NodeSet that asks for it, INACTIVE while it is being deleted, none
when it is gone. It takes its time until slurmctld has read them, which every slurmd that it knows does then too.
"""

from collections.abc import Callable, Mapping
from random import Random

from corral.kinds.nodeset.spec import NodeSet
from corral.testing.apiserver.storage import Change
from tests.sim.kubernetes import SimServer
from tests.sim.records import ALL, INACTIVE, UP
from tests.sim.slurmctld import Slurmctld


class Delivery:
    def __init__(self, server: SimServer, slurm: Slurmctld, reconfigured: Callable[[], None], chance: Random) -> None:
        self._server, self._slurm, self._reconfigured, self._chance = server, slurm, reconfigured, chance
        self.takes_s_max = 0.0
        self._asked: Mapping[str, str] = {ALL: UP}
        self._due_s = 0.0
        server.storage.listen(self._saw)

    def tick(self) -> None:
        wanted = self._wanted()
        now_s = self._server.now_s()
        if wanted != self._asked:
            self._asked, self._due_s = wanted, now_s + self._chance.uniform(0, self.takes_s_max)
        if self._slurm.up and now_s >= self._due_s and wanted != self._slurm.partitions:
            self._slurm.configure(wanted)
            self._reconfigured()

    def _wanted(self) -> dict[str, str]:
        asking = [one for one in self._server.all_of(NodeSet) if (one["spec"].get("partition") or {}).get("enabled")]
        return {
            **{one["metadata"]["name"]: INACTIVE if "deletionTimestamp" in one["metadata"] else UP for one in asking},
            ALL: UP,
        }

    def _saw(self, change: Change) -> None:
        if change.key.resource == NodeSet.resource.plural_and_group:
            self.tick()
