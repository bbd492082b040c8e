"""Serves the Model Context Protocol on one connection: tools, resources, prompts, notifications.

`McpConnection` carries out the methods of `protocol.mcp` by calling memsyncd's own methods, so an
MCP client has the same limits, order and errors as every other client. It keeps the state of the
connection: the folder that the client works in, its subscriptions and its streams. It runs on the
event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, cast

import msgspec

from memsyncd import __version__
from memsyncd.core.guard.injection import describe_injections
from memsyncd.errors import (
    AlreadyExists,
    AmbiguousWorkspace,
    BadRequest,
    MemsyncdError,
    NoteNotFound,
    NotFound,
    NotFresh,
    WorkspaceNotFound,
)
from memsyncd.first_notes import FIRST_NOTES
from memsyncd.operations.agents.declare import AgentAnswer
from memsyncd.operations.answers import AnswerContent, AnswerSource, make_answer
from memsyncd.operations.changes.declare import Changed, SubscribeParams
from memsyncd.operations.context.declare import ContextParams
from memsyncd.operations.context.text import render_context
from memsyncd.operations.fields import NoParams, Params, WorkspaceParams
from memsyncd.operations.notes import declare as memory
from memsyncd.operations.notes.declare import MOST_NOTES, GetParams, ListParams, NoteInfo
from memsyncd.operations.operation import Operation, Shape, load_function
from memsyncd.operations.pages import NotePlace, encode_cursor
from memsyncd.operations.search.text import FindWarning
from memsyncd.operations.sections import mark_warning
from memsyncd.operations.share.declare import ShareNowParams
from memsyncd.operations.status import declare as operations
from memsyncd.operations.table import OPERATIONS
from memsyncd.operations.workspaces.declare import AddParams
from memsyncd.protocol import mcp, mcp_tools
from memsyncd.protocol.jsonrpc import (
    Id,
    describe_error,
    encode_error,
    encode_notification,
    encode_result,
)
from memsyncd.server.hooks import HookAnswerer, HookSessions, name_agent, read_session_id
from memsyncd.server.requests import RequestDispatcher, ServerContext
from memsyncd.server.session import Outcome, Session

MAX_STREAMS = 16
MAX_SUBSCRIPTIONS = 256
"""The most notes that one connection may subscribe to."""
PAGE_SIZE = 100
MAX_COMPLETIONS = 100
MOST_PAGES = {"path": 50, "query": 5}
"""Pages of MOST_NOTES notes whose paths or headings can complete an argument."""
PROGRESS_S = 1.0
"""Time between two reports of progress to a client that wants them."""
DISK_WAIT_MS, BUSY_WAIT_MS = 2000, 500
"""How long a search waits for recent saves, and how long while the first index is made."""
READABLE = ("ready", "degraded")
"""States of a workspace in which a scan takes no longer than usual."""
ALL_WORKSPACES = "*"
INTERNAL = frozenset({"internal", "store_failed", "store_corrupt", "index_unfit", "disk_full"})

OWN_NAMES = ("agent", "task", "session")
"""Arguments whose values a connection remembers for later calls."""
NoteKey = tuple[str, str]
"""A workspace's id and the path of a note in it."""


class Stream(msgspec.Struct, kw_only=True):
    """One `subscriptions/listen`; `notes` has the URI that the client sent for each note."""

    id: Id
    filter: mcp.SubscriptionFilter = mcp.SubscriptionFilter()
    notes: dict[NoteKey, str] = msgspec.field(default_factory=dict)


class OwnNames:
    """The agent, task and session that a client's calls mean if they name none."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.hook_session: tuple[str, str] | None = None
        """The workspace's id and the client's own name for its session, from a hook."""

    def note_session(self, workspace: str, session_id: str) -> None:
        if session_id:
            self.hook_session = (workspace, session_id)

    def list_names(self, client: str, session: object) -> dict[str, str]:
        """Return the names by argument. `client` is the name that the client gives itself,
        `session` the session that a call names: another session has another task.
        """
        agent = self.names.get("agent") or name_agent(client)
        of_hook = {"session": self.hook_session[1]} if self.hook_session else {}
        own = {"agent": agent, "client": agent} if agent else {}
        names = {**own, **of_hook, **self.names}
        if session and session != names.get("session"):
            names.pop("task", None)
        return names

    def remember(self, named: dict[str, str]) -> str:
        """Remember names; return the line that says so, empty if none is new. Another session
        begins without the task of the session before.
        """
        new = {name: value for name, value in named.items() if self.names.get(name) != value}
        if "session" in new and "session" in self.names:
            self.names.pop("task", None)
        self.names |= named
        if not new:
            return ""
        listed = " and ".join(f"{name} {value}" for name, value in new.items())
        return f"Later calls mean {listed}, unless they name another."

    def forget(self, session: object) -> None:
        """Forget the task and the session if this session has ended; None is the own session."""
        if session in (None, self.names.get("session")):
            self.names.pop("task", None)
            self.names.pop("session", None)


class McpConnection:
    """Carries out MCP for one client, through the dispatcher of its connection."""

    def __init__(
        self, context: ServerContext, session: Session, dispatcher: RequestDispatcher
    ) -> None:
        self.parser = mcp.McpParser()
        self._context = context
        self._session = session
        self._dispatcher = dispatcher
        self._workspace: str | None = None
        self._is_read_only = False
        self.is_lasting = True
        """False for a connection of one request, which remembers nothing for the next."""
        self._own = OwnNames()
        self._host = 0
        """The process of the client, if `memsyncd mcp` has named it."""
        self._name = f"mcp-{time.strftime('%Y%m%d-%H%M%S')}-{session.peer_pid}"
        """The session of a client that names none."""
        if context.hook_sessions is None:
            context.hook_sessions = HookSessions()
        self._hook_sessions = context.hook_sessions
        self._notes: dict[NoteKey, str] = {}
        self._streams: dict[Id, Stream] = {}
        self._scope: frozenset[str] | None = None
        self._subscription: str | None = None
        self._has_finished = False
        self._log_level = ""
        self._methods: dict[str, Callable[[mcp.McpRequest], Outcome]] = {
            "initialize": self._initialize,
            "server/discover": self._discover,
            "ping": lambda _request: mcp.McpResult(),
            "logging/setLevel": self._set_level,
            "tools/list": self._list_tools,
            "tools/call": self._call_tool,
            "resources/list": self._list_resources,
            "resources/templates/list": self._list_templates,
            "resources/read": self._read_resource,
            "resources/subscribe": self._subscribe,
            "resources/unsubscribe": self._unsubscribe,
            "subscriptions/listen": self._listen,
            "prompts/list": self._list_prompts,
            "prompts/get": self._get_prompt,
            "completion/complete": self._complete,
            "notifications/initialized": self._start,
            "notifications/cancelled": self._cancel,
            mcp.BINDING: self._bind,
        }
        self.send_notice: Callable[[str, mcp.McpNotice], None] = self._send_to_session
        """Sends a notification. A session of HTTP replaces it, because it has several streams."""
        dispatcher.carry_out = self.carry_out
        session.translate = self._translate

    def carry_out(self, session: Session, method: str, params: Params) -> Outcome:
        """Carry out one method. This function is a `Dispatch`."""
        request = cast(mcp.McpRequest, params)
        session.client = request.client or session.client
        outcome = self._methods[method](request)
        if isinstance(outcome, mcp.McpResult):
            return mcp.complete_result(method, request, outcome, __version__)
        return self._finish_later(method, request, cast("Awaitable[mcp.McpResult]", outcome))

    @property
    def has_streams(self) -> bool:
        return bool(self._streams)

    def finish(self) -> None:
        """End the streams of a client that is about to lose its connection."""
        self._has_finished = True
        streams, self._streams = self._streams, {}
        for stream in streams.values():
            self._end_stream(stream)
        self._notes.clear()
        self._session.is_subscribed = False

    async def _finish_later(
        self, method: str, request: mcp.McpRequest, outcome: Awaitable[mcp.McpResult]
    ) -> mcp.McpResult:
        return mcp.complete_result(method, request, await outcome, __version__)

    async def _ask(self, method: str, params: Params) -> Any:
        """Call one of memsyncd's own methods."""
        outcome = self._context.dispatch(self._session, method, params)
        return await outcome if inspect.isawaitable(outcome) else outcome

    # --- handshake

    def _initialize(self, request: mcp.McpRequest) -> mcp.McpResult:
        return mcp.InitializeResult(
            protocol_version=request.version,
            capabilities=mcp.describe_capabilities(is_modern=False),
            server_info=mcp.describe_server(__version__),
            instructions=mcp.INSTRUCTIONS,
        )

    def _discover(self, _request: mcp.McpRequest) -> mcp.McpResult:
        return mcp.DiscoverResult(
            supported_versions=list(mcp.SUPPORTED_VERSIONS),
            capabilities=mcp.describe_capabilities(is_modern=True),
            instructions=mcp.INSTRUCTIONS,
        )

    async def _start(self, _request: mcp.McpRequest) -> mcp.McpResult:
        """Complete the handshake: from now on the client is told of new and removed notes."""
        await self._watch()
        return mcp.McpResult()

    def _set_level(self, request: mcp.McpRequest) -> mcp.McpResult:
        self._log_level = request.params.level
        return mcp.McpResult()

    def _cancel(self, request: mcp.McpRequest) -> mcp.McpResult:
        if self._streams.pop(request.params.request_id, None) is None:
            self._dispatcher.cancel_request(request.params.request_id)
        return mcp.McpResult()

    # --- the workspace of the connection

    def _bind(self, request: mcp.McpRequest) -> mcp.McpResult:
        params = request.params
        self.bind(params.workspace, is_read_only=params.read_only)
        self._host = params.host
        named = {"task": params.task[:200], "session": params.session[:200]}
        self._own.remember({name: value for name, value in named.items() if value})
        return mcp.McpResult()

    def bind(self, workspace: str, *, is_read_only: bool) -> None:
        """Bind the connection to a workspace, only once, because later messages come from the
        client.
        """
        if self._workspace is None:
            self._workspace = workspace[:8192] or None
            self._is_read_only = is_read_only

    async def _find_workspace(self, named: str | None) -> operations.WorkspaceStatus:
        """Return the named workspace, else the bound one, else the only one.

        Raises WorkspaceNotFound if there is none, AmbiguousWorkspace with the names to choose from.
        """
        chosen = named or self._workspace
        try:
            status = await self._ask("status", WorkspaceParams(workspace=chosen))
        except WorkspaceNotFound:
            if named is not None or chosen is None or not chosen.startswith("/"):
                raise
            names = await self._list_names()
            also = f", or name another workspace with `workspace`: {names}" if names else ""
            message = f"the folder {chosen} has no memory yet"
            raise WorkspaceNotFound(
                message, hint=f"begin one with {mcp_tools.INIT_TOOL}{also}"
            ) from None
        workspaces: list[operations.WorkspaceStatus] = status.workspaces
        if len(workspaces) > 1:
            listed = await self._ask("workspace.list", NoParams())
            # A client means the user-wide workspace only if it names it.
            user_wide = {workspace.id for workspace in listed.workspaces if workspace.user}
            workspaces = [each for each in workspaces if each.id not in user_wide]
        if len(workspaces) == 1:
            return workspaces[0]
        if not workspaces:
            hint = f"begin one with {mcp_tools.INIT_TOOL}"
            raise WorkspaceNotFound("there is no workspace yet", hint=hint)
        names = ", ".join(sorted(workspace.name for workspace in workspaces))
        hint = f"name one with `workspace`: {names}"
        raise AmbiguousWorkspace("there are several workspaces", hint=hint)

    async def _list_names(self) -> str:
        status = await self._ask("status", WorkspaceParams())
        return ", ".join(sorted(workspace.name for workspace in status.workspaces))

    async def _find_scope(self) -> list[operations.WorkspaceStatus]:
        """Return the workspaces whose notes are listed: the bound workspace, else all."""
        with contextlib.suppress(WorkspaceNotFound):
            status = await self._ask("status", WorkspaceParams(workspace=self._workspace))
            return list(status.workspaces)
        return []

    # --- tools

    async def _list_tools(self, _request: mcp.McpRequest) -> mcp.McpResult:
        has_memory = bool(await self._find_scope())
        tools = mcp_tools.list_tools(is_read_only=self._is_read_only, has_memory=has_memory)
        return mcp.ToolList(tools=tools)

    def _call_tool(self, request: mcp.McpRequest) -> Outcome:
        name = request.params.name
        if name == mcp_tools.HOOK_TOOL:
            return self._answer_hook(request)
        tool = mcp_tools.TOOLS.get(name)
        if tool is None or (self._is_read_only and not tool.tool.is_read_only):
            why = " here: memsyncd mcp --read-only offers none that write" if tool else ""
            # Clients show a model only the message, so the message has the names.
            offered = mcp_tools.list_tools(is_read_only=self._is_read_only, has_memory=True)
            names = ", ".join(described["name"] for described in offered)
            message = f"Unknown tool: {name[:128]}{why}; there are {names}"
            raise BadRequest(message, hint="call one of these")
        return self._run_tool(tool, request)

    async def _run_tool(
        self, tool: mcp_tools.OfferedTool, request: mcp.McpRequest
    ) -> mcp.McpResult:
        """Call a tool. A failure is a result with `isError` and the remedy, which a model reads. A
        wrong message is an error of JSON-RPC.
        """
        async with self._report_progress(request.progress_token):
            try:
                text = await self._use_tool(tool, request.params.arguments or {})
            except MemsyncdError as error:
                self._log_failure(tool.tool.name, error)
                text = mcp_tools.render_error(error)
                await self._note_failure(
                    tool.tool.name, text, error, request.params.arguments or {}
                )
                meta = {mcp_tools.ERROR_META: error.code}
                return mcp.ToolResult(content=[_make_text(text)], is_error=True, meta=meta)
        return mcp.ToolResult(content=[_make_text(text)])

    async def _answer_hook(self, request: mcp.McpRequest) -> mcp.McpResult:
        """Answer a client's hook with JSON: the memory that belongs to a prompt or a new session.

        The JSON is an empty object if there is no such memory. It is also empty, with the error's
        code in `_meta`, if the folder has no memory or the search takes too long.
        """
        sent = request.params.arguments or {}
        values = {name: value for name, value in sent.items() if value is not None}
        arguments = mcp_tools.convert_arguments(values, mcp_tools.HookArguments, {})
        text, summary, code = "", "", None
        try:
            text, summary = await self._recall_for_hook(arguments)
        except (WorkspaceNotFound, NotFresh) as error:
            code = error.code
        return mcp.ToolResult(
            content=[_make_text(mcp_tools.render_hook_answer(arguments.event, text, summary))],
            meta={mcp_tools.ERROR_META: code} if code else msgspec.UNSET,
        )

    async def _recall_for_hook(self, arguments: mcp_tools.HookArguments) -> tuple[str, str]:
        """Return the text for the model and its summary for the user, and note the answer."""
        folder = arguments.cwd or self._workspace
        if not folder:
            return "", ""
        status = await self._find_workspace(folder)
        is_ready = status.state in READABLE
        session_id = read_session_id(arguments)
        hooks = HookAnswerer(
            msgspec.structs.replace(arguments, cwd=folder),
            workspace=status.id,
            agent=arguments.client or name_agent(self._session.client),
            names=self._own.names,
            sessions=self._hook_sessions,
            ask=self._ask,
            ask_context=lambda params: self._ask_fresh("context", params, is_ready=is_ready),
            find_warning=choose_find_warning(self._context),
        )
        if arguments.event == "pre-compact":
            return await hooks.answer_start(), ""
        if arguments.event == "session-start":
            # It only begins: what other machines have learned comes with the next prompt.
            with contextlib.suppress(MemsyncdError):
                await self._ask("share.now", ShareNowParams(workspace=status.id, wait=False))
            text = await hooks.answer_start()
        else:
            self._own.note_session(status.id, session_id)
            text = await hooks.answer_prompt()
        source = self._find_source(arguments.client, session_id)
        self._hook_sessions.note_host(arguments.host, source.client, session_id)
        answer = make_answer(
            source,
            arguments.event,
            text,
            hooks.content,
            signals=hooks.n_signals,
            query=arguments.prompt or None,
        )
        note_later(self._context, lambda: (status.id, answer))
        return text, answer.summary

    # --- what the agent was answered

    def _find_source(self, client: str = "", session_id: str = "") -> AnswerSource:
        """Return whose answers the connection's are. The session is the one that a hook names, on
        this connection or in the same process, else the session that the model has named.
        """
        own = self._own.names
        client = client or name_agent(self._session.client) or self._session.name
        session = session_id or (self._own.hook_session or ("", ""))[1]
        session = session or self._hook_sessions.find_by_host(self._host, client)
        return AnswerSource(
            client=client,
            agent=own.get("agent") or client,
            session=session or own.get("session") or (self._name if self.is_lasting else ""),
        )

    def _note_answer(
        self, call: str, text: str, operation: Operation, params: Any, result: Any
    ) -> None:
        """Note an answer after it was sent: what the result of an operation holds."""
        source = self._find_source()

        def describe() -> tuple[str | None, AgentAnswer]:
            content = load_function(operation.content)(params, result)
            query = getattr(params, "query", None) or getattr(params, "text", None)
            change_set = getattr(result, "change_set", None)
            answer = make_answer(source, call, text, content, change_set, query=query)
            return find_answering(result), answer

        note_later(self._context, describe)

    async def _note_failure(
        self, tool: str, text: str, error: MemsyncdError, arguments: dict[str, Any]
    ) -> None:
        """Note that a tool has failed, if it is known in which workspace."""
        named, call = arguments.get("workspace"), name_call(tool, arguments)
        with contextlib.suppress(MemsyncdError):
            status = await self._find_workspace(named if isinstance(named, str) else None)
            answer = make_answer(
                self._find_source(), call, text, AnswerContent(), failure=error.code
            )
            note_later(self._context, lambda: (status.id, answer))

    # --- calls of tools

    async def _use_tool(self, tool: mcp_tools.OfferedTool, arguments: dict[str, Any]) -> str:
        if tool.tool.name == mcp_tools.INIT_TOOL:
            folder = arguments.get("path") or self._workspace or ""
            _, params = mcp_tools.choose_call(tool, {**arguments, "path": folder})
            return await self._begin_memory(params)
        own = self._own.list_names(self._session.client, arguments.get("session"))
        operation, params = mcp_tools.choose_call(tool, arguments, own)
        if operation.shape is Shape.JOIN:
            result = await self._recall(operation.name, params)
        else:
            status = await self._find_workspace(params.workspace)
            params = msgspec.structs.replace(params, workspace=status.id)
            result = await self._ask(operation.name, params)
        text = mcp_tools.render_result(operation, result, choose_find_warning(self._context))
        text = "\n\n".join(filter(None, (text, self._remember_names(operation, arguments))))
        call = name_call(tool.tool.name, arguments)
        self._note_answer(call, text, operation, params, result)
        return text

    def _remember_names(self, operation: Operation, arguments: dict[str, Any]) -> str:
        """Remember the names that a call has given for its agent, task and session; return the line
        that says so, empty if nothing has changed.
        """
        line = ""
        if operation.name == "session.end":
            self._own.forget(arguments.get("session"))
        else:
            fields = mcp_tools.list_remembered(operation)
            if operation.name != "session.start":  # an agent may read the inbox of another
                fields = [field for field in fields if field != "agent"]
            named = {name: arguments.get(name) for name in OWN_NAMES if name in fields}
            line = self._own.remember({name: str(value) for name, value in named.items() if value})
        if self._own.hook_session:
            self._hook_sessions.use(*self._own.hook_session).names = {**self._own.names}
        return line if self.is_lasting else ""

    async def _recall(self, method: str, params: Any) -> Any:
        """Ask a question to the named workspaces, else in the bound workspace.

        Events tell of all saves in a workspace that is watched, so its disk is not scanned, unless
        a save takes long.
        """
        named = params.workspace
        if isinstance(named, list) and len(named) == 1:
            named = named[0]
        if isinstance(named, list) or named == ALL_WORKSPACES:
            params = msgspec.structs.replace(params, workspace=named)
            return await self._ask_fresh(method, params, is_ready=True)
        # A path says more than an id, because it may lead into a linked worktree.
        place = named or self._workspace or (await self._find_workspace(None)).id
        params = msgspec.structs.replace(params, workspace=place)
        if self._context.is_watching():
            with contextlib.suppress(NotFresh, WorkspaceNotFound):
                answer = await self._ask(method, params)
                if answer.freshness.state == "ready" and not answer.freshness.pending:
                    return answer
                # The accesses of this question are counted.
                params = msgspec.structs.replace(params, track_access=False)
        status = await self._find_workspace(named)
        return await self._ask_fresh(method, params, is_ready=status.state in READABLE)

    async def _ask_fresh(
        self,
        method: str,
        params: Any,
        *,
        is_ready: bool,
    ) -> Any:
        """Ask after a scan of the disk; if that takes too long, ask the index as it is."""
        wait_ms = DISK_WAIT_MS if is_ready else BUSY_WAIT_MS
        fresh = msgspec.structs.replace(params, wait="disk", timeout_ms=wait_ms)
        with contextlib.suppress(NotFresh):
            return await self._ask(method, fresh)
        return await self._ask(method, params)

    async def _begin_memory(self, params: AddParams) -> str:
        if not params.path.startswith("/"):
            hint = "send the absolute path of the project's folder as `path`"
            raise BadRequest("no folder is known to begin a memory in", hint=hint)
        added = await self._ask("workspace.add", params)
        workspace = added.workspaces[0]
        with contextlib.suppress(AlreadyExists):
            first = memory.MemoryParams(
                command="create",
                path="/memories/MEMORY.md",
                file_text=FIRST_NOTES["MEMORY.md"],
                workspace=workspace.id,
            )
            result = await self._ask("memory", first)
            self._note_answer(mcp_tools.INIT_TOOL, "", OPERATIONS["memory"], first, result)
        self._scope = None
        self._notify_listing("tools")
        return f"The workspace `{workspace.name}` keeps its memory in {workspace.root}/MEMORY.md"

    def _log_failure(self, tool: str, error: MemsyncdError) -> None:
        if self._log_level and error.code in INTERNAL:
            data = {"tool": tool, "code": error.code, "message": error.message}
            notice = mcp.McpNotice(level="error", logger="memsyncd", data=data)
            self.send_notice("notifications/message", notice)

    @contextlib.asynccontextmanager
    async def _report_progress(self, token: str | int | None) -> AsyncIterator[None]:
        """Send progress each second, if the client sent a token for it."""
        task = None if token is None else asyncio.ensure_future(self._send_progress(token))
        try:
            yield
        finally:
            if task is not None:
                task.cancel()

    async def _send_progress(self, token: str | int) -> None:
        n_sent = pending = 0
        while True:
            await asyncio.sleep(PROGRESS_S)
            n_sent += 1
            with contextlib.suppress(MemsyncdError):
                pending = sum(workspace.pending for workspace in await self._find_scope())
            message = f"waiting for the index: {pending} changes pending" if pending else "waiting"
            notice = mcp.McpNotice(progress_token=token, progress=n_sent, message=message)
            self.send_notice("notifications/progress", notice)

    # --- resources

    async def _list_resources(self, request: mcp.McpRequest) -> mcp.McpResult:
        after = mcp.read_cursor(request.params.cursor)
        name, path = mcp.parse_uri(after) if after else ("", "")
        resources: list[dict[str, Any]] = []
        scope = sorted(await self._find_scope(), key=lambda workspace: workspace.name)
        for workspace in scope:
            if workspace.name < name:
                continue
            left = PAGE_SIZE - len(resources)
            if not left:
                cursor = mcp.make_cursor(resources[-1]["uri"])
                return mcp.ResourceList(resources=resources, next_cursor=cursor)
            place = NotePlace(path if workspace.name == name else "")
            params = ListParams(
                workspace=workspace.id, sections=False, limit=left, cursor=encode_cursor(place)
            )
            listing = await self._ask("list", params)
            resources += [_describe_note(workspace, note) for note in listing.notes]
            if listing.cursor is not None:
                cursor = mcp.make_cursor(resources[-1]["uri"])
                return mcp.ResourceList(resources=resources, next_cursor=cursor)
        return mcp.ResourceList(resources=resources)

    def _list_templates(self, _request: mcp.McpRequest) -> mcp.McpResult:
        return mcp.TemplateList(resource_templates=mcp.TEMPLATES)

    async def _read_resource(self, request: mcp.McpRequest) -> mcp.McpResult:
        uri = request.params.uri
        try:
            workspace, path = mcp.parse_uri(uri)
            params = GetParams(path=path, workspace=workspace)
            got = await self._ask("get", params)
        except (NotFound, BadRequest) as error:
            raise _unknown_resource(error, uri, is_modern=request.is_modern) from error
        self._note_answer("resource", got.text, OPERATIONS["get"], params, got)
        contents = [{"uri": uri, "mimeType": "text/markdown", "text": got.text}]
        warning = choose_find_warning(self._context)(got.text)
        if warning:
            text = mark_warning(warning, "this note")
            contents.insert(0, {"uri": uri, "mimeType": "text/plain", "text": text})
        return mcp.ResourceText(contents=contents)

    async def _subscribe(self, request: mcp.McpRequest) -> mcp.McpResult:
        if len(self._notes) >= MAX_SUBSCRIPTIONS:
            hint = "unsubscribe from some of them"
            message = f"one connection can subscribe to {MAX_SUBSCRIPTIONS} notes"
            raise BadRequest(message, hint=hint)
        note = await self._resolve(request.params.uri, is_modern=False)
        self._notes[note] = request.params.uri
        await self._watch()
        return mcp.McpResult()

    def _unsubscribe(self, request: mcp.McpRequest) -> mcp.McpResult:
        uri = request.params.uri
        self._notes = {note: other for note, other in self._notes.items() if other != uri}
        return mcp.McpResult()

    async def _resolve(self, uri: str, *, is_modern: bool) -> NoteKey:
        try:
            workspace, path = mcp.parse_uri(uri)
            status = await self._ask("status", WorkspaceParams(workspace=workspace))
        except (NotFound, BadRequest) as error:
            raise _unknown_resource(error, uri, is_modern=is_modern) from error
        return status.workspaces[0].id, path

    # --- notifications

    def _listen(self, request: mcp.McpRequest) -> Outcome:
        """Open a stream. The request gets its result when the stream ends; so this method sends an
        error itself.
        """
        try:
            self._check_stream(request.id)
        except BadRequest as error:
            self._session.send_line(encode_error(request.id, describe_error(error)))
            return mcp.McpResult()
        stream = self._streams[request.id] = Stream(id=request.id)
        return self._open_stream(stream, request.params.notifications)

    async def _open_stream(self, stream: Stream, desired: mcp.SubscriptionFilter) -> mcp.McpResult:
        notes = {}
        for uri in desired.resource_subscriptions[:MAX_SUBSCRIPTIONS]:
            with contextlib.suppress(MemsyncdError):
                notes[await self._resolve(uri, is_modern=True)] = uri
        await self._watch()
        if self._streams.get(stream.id) is not stream:
            return mcp.McpResult()  # the client has cancelled the stream meanwhile
        honoured = msgspec.structs.replace(
            desired, prompts_list_changed=False, resource_subscriptions=list(notes.values())
        )
        notice = mcp.McpNotice(meta=_tag(stream), notifications=honoured)
        self.send_notice("notifications/subscriptions/acknowledged", notice)
        # Notifications begin now: the acknowledgement must come before them.
        stream.filter, stream.notes = honoured, notes
        return mcp.McpResult()

    def _check_stream(self, request_id: Id) -> None:
        if request_id is None or request_id in self._streams:
            raise BadRequest("this id has a stream already", hint="send another id")
        if len(self._streams) >= MAX_STREAMS:
            hint = "cancel one with notifications/cancelled"
            raise BadRequest(f"one connection can have {MAX_STREAMS} streams", hint=hint)

    def _end_stream(self, stream: Stream) -> None:
        result = mcp.McpResult(result_type="complete", meta=_tag(stream))
        self._session.send_line(encode_result(stream.id, result))

    async def _watch(self) -> None:
        """Subscribe `_translate` to the changes of all notes, and remember the workspaces whose
        notes are listed.
        """
        self._scope = frozenset(workspace.id for workspace in await self._find_scope())
        # With a subscription, a client that has ended its side meanwhile would never be closed.
        if self._subscription is None and not self._has_finished:
            self._subscription = ""
            subscribed = await self._ask("subscribe", SubscribeParams())
            self._subscription = subscribed.subscription

    def _translate(self, _method: str, params: msgspec.Struct) -> None:
        """Send the notifications of MCP for a change of notes."""
        if not isinstance(params, Changed) or params.subscription != self._subscription:
            return  # it belongs to a subscription from before the connection spoke MCP
        changed = params
        changes = [(changed.workspace, path) for path in changed.paths]
        for note in changes:
            if note in self._notes:
                self._send_updated(self._notes[note], None)
            for stream in self._streams.values():
                if note in stream.notes:
                    self._send_updated(stream.notes[note], stream)
        is_in_scope = self._scope is None or changed.workspace in self._scope
        if changed.listing and is_in_scope:
            self._notify_listing("resources")

    def _send_updated(self, uri: str, stream: Stream | None) -> None:
        notice = (
            mcp.McpNotice(uri=uri) if stream is None else mcp.McpNotice(uri=uri, meta=_tag(stream))
        )
        self.send_notice("notifications/resources/updated", notice)

    def _notify_listing(self, kind: str) -> None:
        method = f"notifications/{kind}/list_changed"
        if self.parser.version:
            self.send_notice(method, mcp.McpNotice())
        for stream in self._streams.values():
            desired = stream.filter
            if desired.tools_list_changed if kind == "tools" else desired.resources_list_changed:
                self.send_notice(method, mcp.McpNotice(meta=_tag(stream)))

    def _send_to_session(self, method: str, notice: mcp.McpNotice) -> None:
        self._session.send_line(encode_notification(method, notice))

    # --- prompts and completion

    def _list_prompts(self, _request: mcp.McpRequest) -> mcp.McpResult:
        return mcp.PromptList(prompts=list(mcp.PROMPTS.values()))

    def _get_prompt(self, request: mcp.McpRequest) -> Outcome:
        arguments = request.params.arguments or {}
        if request.params.name not in mcp.PROMPTS:
            hint = f"prompts: {', '.join(mcp.PROMPTS)}"
            raise BadRequest(f"Unknown prompt: {request.params.name[:128]}", hint=hint)
        if not arguments.get("query"):
            raise BadRequest("argument `query` is missing", hint="send the subject, in words")
        return self._make_prompt(arguments["query"], arguments.get("workspace"))

    async def _make_prompt(self, query: str, named: str | None) -> mcp.McpResult:
        params = ContextParams(query=query, workspace=named)
        context = await self._recall("context", params)
        text = render_context(context)
        self._note_answer("prompt", text, OPERATIONS["context"], params, context)
        return mcp.PromptText(
            description=f"Memory on: {query[:200]}",
            messages=[{"role": "user", "content": _make_text(text)}],
        )

    async def _complete(self, request: mcp.McpRequest) -> mcp.McpResult:
        params: mcp.CompleteParams = request.params
        is_prompt = params.ref.type == "ref/prompt"
        if (
            (params.ref.name not in mcp.PROMPTS)
            if is_prompt
            else (params.ref.uri != mcp.NOTE_TEMPLATE)
        ):
            hint = f"complete {', '.join(mcp.PROMPTS)} or {mcp.NOTE_TEMPLATE}"
            raise BadRequest("there is nothing of this name to complete", hint=hint)
        chosen = params.context.arguments.get("workspace") if params.context else None
        values = await self._find_completions(params.argument.name, chosen)
        start = params.argument.value.casefold()
        # Values that begin with the text come before values that contain it.
        fitting = sorted(
            {value for value in values if start in value.casefold()},
            key=lambda value: (not value.casefold().startswith(start), value),
        )
        completion = {
            "values": fitting[:MAX_COMPLETIONS],
            "total": len(fitting),
            "hasMore": len(fitting) > MAX_COMPLETIONS,
        }
        return mcp.CompletionResult(completion=completion)

    async def _find_completions(self, argument: str, named: str | None) -> list[str]:
        if argument == "workspace":
            listed = await self._ask("workspace.list", NoParams())
            return [workspace.name for workspace in listed.workspaces]
        if argument not in ("path", "query"):
            return []
        try:
            status = await self._find_workspace(named)
        except WorkspaceNotFound:
            return []
        has_sections = argument == "query"
        notes: list[NoteInfo] = []
        cursor: str | None = None
        for _ in range(MOST_PAGES["query" if has_sections else "path"]):
            params = ListParams(
                workspace=status.id, sections=has_sections, limit=MOST_NOTES, cursor=cursor
            )
            listing = await self._ask("list", params)
            notes += listing.notes
            cursor = listing.cursor
            if cursor is None:
                break
        if argument == "path":
            return [note.path for note in notes]
        return [
            section.heading[-1] for note in notes for section in note.sections if section.heading
        ]


def name_call(tool: str, arguments: dict[str, Any]) -> str:
    """Return the name of a tool, with its action or command if it has several."""
    action = arguments.get("action") or arguments.get("command")
    return f"{tool} {action}"[:64] if isinstance(action, str) else tool


def find_answering(result: Any) -> str | None:
    """Return the id of the workspace that has answered, the first of several."""
    workspaces = getattr(result, "workspaces", None)
    own = workspaces[0].id if workspaces else getattr(result, "workspace", None)
    return own if isinstance(own, str) else None


def choose_find_warning(context: ServerContext) -> FindWarning:
    """Return the function that describes how a text tries to instruct its reader."""
    return describe_injections if context.marks_instructions() else lambda _text: ""


def _make_text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _tag(stream: Stream) -> dict[str, Any]:
    return {mcp.SUBSCRIPTION_ID: stream.id}


def _describe_note(workspace: operations.WorkspaceStatus, note: NoteInfo) -> dict[str, Any]:
    uri = mcp.make_uri(workspace.name, note.path)
    described: dict[str, Any] = {"uri": uri, "name": note.path, "mimeType": "text/markdown"}
    if note.title:
        described["title"] = note.title
    return {**described, "size": note.size_bytes}


def _unknown_resource(error: MemsyncdError, uri: str, *, is_modern: bool) -> MemsyncdError:
    """Return the error that a revision of MCP prescribes for a URI without a note."""
    kind = BadRequest if is_modern else NoteNotFound
    return kind(error.message, hint=mcp_tools.advise_agent(error), uri=uri[:512])


def note_later(
    context: ServerContext, describe: Callable[[], tuple[str | None, AgentAnswer]]
) -> None:
    """Call `describe` after the answer of the request that is carried out, and note the answer that
    it returns, in the workspace that it returns; nowhere if that is None.
    """

    def note() -> None:
        try:
            workspace, answer = describe()
            if workspace is not None:
                context.note_answer(workspace, answer)
        except Exception as error:  # noqa: BLE001 - the agent has its answer
            context.on_error(error, "log.agents")

    # A callback of `call_soon` would run before the answer is sent.
    context.loop.call_later(0, note)
