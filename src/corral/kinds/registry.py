"""The kinds that the operator runs and the commands know."""

from corral.engine.registry import KindController
from corral.kinds.accounting.controller import KINDS as ACCOUNTING
from corral.kinds.addresspool.controller import KINDS as ADDRESSPOOL
from corral.kinds.controller.controller import KINDS as CONTROLLER
from corral.kinds.loginset.controller import KINDS as LOGINSET
from corral.kinds.nodebridge.controller import KINDS as NODEBRIDGE
from corral.kinds.nodeset.controller import KINDS as NODESET
from corral.kinds.restapi.controller import KINDS as RESTAPI
from corral.kinds.token.controller import KINDS as TOKEN
from corral.kinds.wukong.controller import KINDS as WUKONG
from corral.kinds.wukongsnapshot.controller import KINDS as WUKONGSNAPSHOT

SLURM = (*CONTROLLER, *ACCOUNTING, *RESTAPI, *TOKEN, *NODESET, *LOGINSET)
MACHINES = (*WUKONG, *WUKONGSNAPSHOT, *NODEBRIDGE, *ADDRESSPOOL)
KINDS: tuple[KindController, ...] = (*SLURM, *MACHINES)
