"""How slurmctld switches nodes off and on, where people have a SuspendProgram and a ResumeProgram. Pure.

What was learned from the real one, for machines that are not started anew, as those below pods are not:

    an order to switch off waits for the node's jobs, and lifts its drain, whosever it is
    while a node is switched off or on, a registration changes nothing: slurmctld waits for a machine that was started
    later than it said so
    one that is off is given jobs, which wait until it is on; a registration ends that it is off
    nobody pings one that is off, and none of these is missed. One that does not come up in time is DOWN and off, and
    stays so until it registers
"""

from typing import Final

from tests.sim.records import Record

SUSPEND_S, RESUME_S = 10.0, 30.0  # SuspendTimeout, ResumeTimeout
POWER_DOWN, POWER_UP = ORDERS = ("POWER_DOWN", "POWER_UP")
POWERING_DOWN, POWERED_DOWN, POWERING_UP = "POWERING_DOWN", "POWERED_DOWN", "POWERING_UP"
UNDER_WAY: Final = (POWERING_DOWN, POWERING_UP)


def is_heeded(record: Record, order: str) -> bool:
    """Others are accepted, and forgotten."""
    return record.power == POWERED_DOWN if order == POWER_UP else record.power != POWERING_DOWN


def next_power(record: Record, now_s: float, *, held: bool) -> str:
    """What comes now; nothing, when it stays as it is."""
    for_s = now_s - record.power_s
    match record.power, record.order:
        case _, "POWER_DOWN" if not held:
            return POWERING_DOWN
        case "POWERING_DOWN", _ if for_s >= SUSPEND_S:
            return POWERED_DOWN
        case "POWERING_UP", _ if for_s >= RESUME_S:
            return POWERED_DOWN
        case "POWERED_DOWN", order if held or order == POWER_UP:
            return POWERING_UP
    return ""
