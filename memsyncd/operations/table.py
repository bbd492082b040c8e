"""The table of all operations and notifications."""

from __future__ import annotations

from types import ModuleType

from memsyncd.operations.agents import declare as agents
from memsyncd.operations.capture import declare as capture
from memsyncd.operations.changes import declare as changes
from memsyncd.operations.context import declare as context
from memsyncd.operations.history import declare as history
from memsyncd.operations.links import declare as links
from memsyncd.operations.memories import declare as memories
from memsyncd.operations.notes import declare as notes
from memsyncd.operations.operation import CommandGroup, Notification, Operation
from memsyncd.operations.project import declare as project
from memsyncd.operations.recall import declare as recall
from memsyncd.operations.records import declare as records
from memsyncd.operations.search import declare as search
from memsyncd.operations.semantic import declare as semantic
from memsyncd.operations.share import declare as share
from memsyncd.operations.signals import declare as signals
from memsyncd.operations.similar import declare as similar
from memsyncd.operations.stats import declare as stats
from memsyncd.operations.status import declare as status
from memsyncd.operations.tasks import declare as tasks
from memsyncd.operations.topics import declare as topics
from memsyncd.operations.transfer import declare as transfer
from memsyncd.operations.upkeep import declare as upkeep
from memsyncd.operations.workspaces import declare as workspaces

_CAPABILITIES: tuple[ModuleType, ...] = (
    status,
    search,
    context,
    recall,
    notes,
    memories,
    links,
    similar,
    stats,
    capture,
    project,
    history,
    topics,
    tasks,
    signals,
    agents,
    upkeep,
    workspaces,
    changes,
    semantic,
    records,
    transfer,
    share,
)
OPERATIONS: dict[str, Operation] = {
    operation.name: operation for capability in _CAPABILITIES for operation in capability.OPERATIONS
}
NOTIFICATIONS: dict[str, Notification] = {
    **changes.NOTIFICATIONS,
    **signals.NOTIFICATIONS,
    **agents.NOTIFICATIONS,
}
COMMAND_GROUPS: tuple[CommandGroup, ...] = tuple(
    group for capability in _CAPABILITIES for group in getattr(capability, "COMMAND_GROUPS", ())
)
