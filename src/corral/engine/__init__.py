"""The reconcile engine: observe, plan, act, report. `docs/engine.md` walks through a controller.

This is the whole public surface; what is not named here may change.
"""

from corral.engine.actions import (
    Action,
    AddFinalizer,
    Apply,
    Create,
    Delete,
    EmitEvent,
    Evict,
    Outside,
    OutsideFailed,
    Patch,
    RemoveFinalizer,
    SetStatus,
    Target,
    controller_reference,
    is_controlled_by,
    summary,
    target,
)
from corral.engine.barrier import Barrier
from corral.engine.children import Once, children, manager_name
from corral.engine.clock import Clock, system_clock, virtual_clock
from corral.engine.controller import Controller, Mapper, Predicate, Source, any_change, generation_changed
from corral.engine.health import Address
from corral.engine.informer import Informer, Informers
from corral.engine.lease import Election, LeaseLost
from corral.engine.manager import CannotStart, LeaseAddress, Manager, run_until_signal
from corral.engine.metrics import Metrics
from corral.engine.plan import NOTHING, Plan, Wait, as_data, summary_lines
from corral.engine.questions import Change, Explanation, Planned, dry_run, explain, plan_object, render
from corral.engine.queue import Backoff, Lane, RateLimit, WorkQueue
from corral.engine.reconciler import Outcome, Problem, Reader, Reconciler, Result, Snapshot, Undeclared
from corral.engine.registry import KindController, UnknownKind, find
from corral.engine.status import READY, RECONCILING, STALLED, SUSPENDED, Status, Verdict, conditions, verdict
from corral.engine.store import Key, Store, key_of

__all__ = [
    # What the author of a kind writes
    "Controller",
    "Reconciler",
    "Reader",
    "Snapshot",
    "Key",
    "key_of",
    "Mapper",
    "Predicate",
    "Source",
    "any_change",
    "generation_changed",
    "Undeclared",
    # The decision
    "Plan",
    "Wait",
    "NOTHING",
    "Action",
    "Create",
    "Apply",
    "Patch",
    "Delete",
    "Evict",
    "AddFinalizer",
    "RemoveFinalizer",
    "SetStatus",
    "EmitEvent",
    "Outside",
    "OutsideFailed",
    "Target",
    "target",
    "controller_reference",
    "is_controlled_by",
    "children",
    "Once",
    "manager_name",
    "summary",
    "summary_lines",
    "as_data",
    # What came of it
    "Outcome",
    "Result",
    "Problem",
    "Status",
    "Verdict",
    "verdict",
    "conditions",
    "READY",
    "RECONCILING",
    "STALLED",
    "SUSPENDED",
    # Running
    "Manager",
    "run_until_signal",
    "CannotStart",
    "LeaseAddress",
    "Address",
    "Metrics",
    # Asking
    "KindController",
    "find",
    "UnknownKind",
    "plan_object",
    "Planned",
    "dry_run",
    "Change",
    "render",
    "explain",
    "Explanation",
    # The parts, each usable alone
    "Informer",
    "Informers",
    "Store",
    "WorkQueue",
    "Lane",
    "Backoff",
    "RateLimit",
    "Barrier",
    "Election",
    "LeaseLost",
    "Clock",
    "system_clock",
    "virtual_clock",
]
