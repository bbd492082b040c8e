"""Which failures does memsyncd name, and what does each mean on the wire and to a shell?

    MemsyncdError
    ├── BadRequest            the caller's words are off
    │   ├── TooLarge          a request, query or reply over its limit
    │   ├── PathRefused       a path that names nothing memsyncd may touch
    │   └── EditRefused       an edit that does not fit the note: its words are not there, or more than once
    ├── NoDaemon              nobody listens on the socket
    │   └── ShuttingDown      somebody did, and is leaving
    ├── NotFound
    │   ├── WorkspaceNotFound
    │   └── NoteNotFound
    ├── NotFresh              what was asked for is not indexed within the time given
    ├── Busy                  a limit on what runs at once is reached
    ├── Conflict              what stands is not what the caller had seen
    │   ├── AlreadyExists     something stands where something new should be
    │   └── AlreadyRunning    another daemon holds the lock
    ├── Unwritable            the system does not let this note or folder be changed
    ├── Unsafe                a folder or socket that others could have made or could reach
    ├── BadConfig             the configuration names something that cannot be
    └── StoreFailed           SQLite could not do what was asked
        ├── StoreCorrupt      the file is damaged: rebuild it
        ├── IndexUnfit        an index that is damaged, or another version's: rebuild it
        └── StoreFull         no space: wait, never rebuild

`code` is the stable word in `data.code` of an error answer, `rpc_code` its JSON-RPC number, `exit_status` what the command
line leaves with. `hint` says what to do next. Nothing here holds a note's text or a path outside a workspace.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import ClassVar


class MemsyncdError(Exception):
    """Any failure that memsyncd names. Raised as one of the classes below."""

    code: ClassVar[str] = "internal"
    rpc_code: ClassVar[int] = -32603
    exit_status: ClassVar[int] = 70

    def __init__(self, message: str, *, hint: str = "", **data: object) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.data = data


class BadRequest(MemsyncdError):
    code = "bad_request"
    rpc_code = -32602
    exit_status = 2


class TooLarge(BadRequest):
    code = "too_large"
    rpc_code = -32007


class PathRefused(BadRequest):
    code = "path_refused"
    rpc_code = -32005
    exit_status = 6


class EditRefused(BadRequest):
    code = "edit_refused"
    rpc_code = -32017
    exit_status = 6


class NoDaemon(MemsyncdError):
    code = "no_daemon"
    rpc_code = -32010
    exit_status = 3


class ShuttingDown(NoDaemon):
    code = "shutting_down"
    rpc_code = -32008


class NotFound(MemsyncdError):
    code = "not_found"
    rpc_code = -32001
    exit_status = 4


class WorkspaceNotFound(NotFound):
    code = "workspace_not_found"


class NoteNotFound(NotFound):
    code = "note_not_found"
    rpc_code = -32002


class NotFresh(MemsyncdError):
    code = "timeout"
    rpc_code = -32003
    exit_status = 5


class Busy(MemsyncdError):
    code = "busy"
    rpc_code = -32006
    exit_status = 5


class Conflict(MemsyncdError):
    code = "conflict"
    rpc_code = -32004
    exit_status = 6


class AlreadyExists(Conflict):
    code = "already_exists"
    rpc_code = -32018


class AlreadyRunning(Conflict):
    code = "already_running"
    rpc_code = -32011


class Unwritable(MemsyncdError):
    code = "unwritable"
    rpc_code = -32019
    exit_status = 6


class Unsafe(MemsyncdError):
    code = "unsafe"
    rpc_code = -32012
    exit_status = 6


class BadConfig(MemsyncdError):
    code = "bad_config"
    rpc_code = -32009
    exit_status = 78


class StoreFailed(MemsyncdError):
    code = "store_failed"
    rpc_code = -32013


class StoreCorrupt(StoreFailed):
    code = "store_corrupt"
    rpc_code = -32014


class IndexUnfit(StoreFailed):
    code = "index_unfit"
    rpc_code = -32016


class StoreFull(StoreFailed):
    code = "disk_full"
    rpc_code = -32015
