"""Define the errors of memsyncd, each with its code on the wire, exit status and HTTP status.

    MemsyncdError
    ├── BadRequest            the request is malformed
    │   ├── TooLarge          a request, query or reply over its limit
    │   ├── UnsupportedVersion  a version of MCP that memsyncd does not speak
    │   ├── HeaderMismatch    a header of HTTP that contradicts the message of MCP
    │   ├── Unauthorized      a request over TCP without the daemon's token
    │   ├── Forbidden         a request over HTTP for another host, or from a page of another site
    │   ├── PathRefused       a path that memsyncd must not touch
    │   ├── EditRefused       an edit that does not fit the note: its text is absent or ambiguous
    │   └── ConfirmationNeeded  an undo without `confirm` that deletes another program's note
    ├── NoDaemon              no daemon listens on the socket
    │   └── ShuttingDown      the daemon is stopping
    ├── NotFound
    │   ├── WorkspaceNotFound
    │   │   └── AmbiguousWorkspace  the request names none, and there are several
    │   └── NoteNotFound
    ├── NotFresh              not indexed within the given time
    ├── Busy                  a limit is reached: requests at once, or waiting signals
    ├── Conflict              the note is not the version that the caller has read
    │   ├── AlreadyExists     the new note or folder exists already
    │   └── AlreadyRunning    another daemon holds the lock
    ├── Unwritable            the system refuses to change this note or folder
    ├── Unsafe                a folder or socket that another user may have created or can reach
    ├── BadConfig             the configuration is invalid
    ├── ShareFailed           git or the remote of a shared memory failed
    └── StoreFailed           an operation of SQLite failed
        ├── StoreCorrupt      the file is damaged: rebuild it
        ├── IndexUnfit        the index is damaged, or from another version: rebuild it
        └── StoreFull         no space: wait, never rebuild

`code` is the stable word in `data.code` of an error answer, and `rpc_code` its JSON-RPC number.
`exit_status` is the exit status of the command line, `http_status` the status of an answer over
HTTP. `hint` says what to do next. No error holds a note's text or a path outside a workspace.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import ClassVar

N_CANDIDATES = 5
"""An error names so many notes or sections."""


class MemsyncdError(Exception):
    """The base of all errors of memsyncd. Only its subclasses are raised."""

    code: ClassVar[str] = "internal"
    rpc_code: ClassVar[int] = -32603
    exit_status: ClassVar[int] = 70
    http_status: ClassVar[int] = 500

    def __init__(self, message: str, *, hint: str = "", **data: object) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.data = data


class BadRequest(MemsyncdError):
    code = "bad_request"
    rpc_code = -32602
    exit_status = 2
    http_status = 400


class TooLarge(BadRequest):
    code = "too_large"
    rpc_code = -32007
    http_status = 413


class UnsupportedVersion(BadRequest):
    code = "unsupported_version"
    rpc_code = -32022


class HeaderMismatch(BadRequest):
    code = "header_mismatch"
    rpc_code = -32020


class Unauthorized(BadRequest):
    code = "unauthorized"
    rpc_code = -32023
    http_status = 401


class Forbidden(BadRequest):
    code = "forbidden"
    rpc_code = -32024
    http_status = 403


class PathRefused(BadRequest):
    code = "path_refused"
    rpc_code = -32005
    exit_status = 6
    http_status = 403


class EditRefused(BadRequest):
    code = "edit_refused"
    rpc_code = -32017
    exit_status = 6
    http_status = 422


class ConfirmationNeeded(BadRequest):
    code = "confirmation_needed"
    rpc_code = -32025
    exit_status = 6
    http_status = 409


class NoDaemon(MemsyncdError):
    code = "no_daemon"
    rpc_code = -32010
    exit_status = 3
    http_status = 503


class ShuttingDown(NoDaemon):
    code = "shutting_down"
    rpc_code = -32008


class NotFound(MemsyncdError):
    code = "not_found"
    rpc_code = -32001
    exit_status = 4
    http_status = 404


class WorkspaceNotFound(NotFound):
    code = "workspace_not_found"


class AmbiguousWorkspace(WorkspaceNotFound):
    code = "workspace_ambiguous"
    http_status = 400


class NoteNotFound(NotFound):
    code = "note_not_found"
    rpc_code = -32002


class NotFresh(MemsyncdError):
    code = "timeout"
    rpc_code = -32003
    exit_status = 5
    http_status = 504


class Busy(MemsyncdError):
    code = "busy"
    rpc_code = -32006
    exit_status = 5
    http_status = 503


class Conflict(MemsyncdError):
    code = "conflict"
    rpc_code = -32004
    exit_status = 6
    http_status = 409


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
    http_status = 403


class Unsafe(MemsyncdError):
    code = "unsafe"
    rpc_code = -32012
    exit_status = 6
    http_status = 403


class BadConfig(MemsyncdError):
    code = "bad_config"
    rpc_code = -32009
    exit_status = 78


class ShareFailed(MemsyncdError):
    code = "share_failed"
    rpc_code = -32026
    exit_status = 5
    http_status = 503


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
    http_status = 507


def make_reply_error(limit_bytes: int) -> TooLarge:
    """Make the error for an answer that has more bytes than the limit."""
    hint = "ask for less: a smaller limit, one folder, fewer lines"
    return TooLarge(f"the answer would be over {limit_bytes} bytes", hint=hint)


def make_several_error(names: Sequence[str], message: str) -> BadRequest:
    """Return the error for a name that several notes or sections have; it lists their paths or
    anchors.
    """
    first = ", ".join(names[:N_CANDIDATES])
    more = f", and {len(names) - N_CANDIDATES} more" if len(names) > N_CANDIDATES else ""
    return BadRequest(message, hint=f"name one of them: {first}{more}", candidates=list(names))
