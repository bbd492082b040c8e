"""Runs the daemon: makes its objects from the configuration, serves until a signal stops it.

The order makes it safe: the locks and the socket come before the first write, the socket answers
before the first index, and the end waits for everything that was started. The clock is read here
and passed to the parts that need time.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn, TypeVar

from msgspec import structs

from memsyncd import __version__
from memsyncd.config import RESTART_KEYS, Config, find_changed_keys
from memsyncd.config.load import Loaded, load_config
from memsyncd.daemon import resources
from memsyncd.daemon.display import ProgressStream, StartupDisplay
from memsyncd.daemon.systemd import (
    LISTEN_VARIABLES,
    NOTIFY_VARIABLES,
    Liveness,
    SystemdReporter,
    find_notify_socket,
    inherit_socket,
    make_probes,
)
from memsyncd.dirs import Dirs, find_dirs, has_named_socket
from memsyncd.engine.clock import Clock
from memsyncd.engine.registry import FolderCheck, Registry
from memsyncd.engine.scheduler import LARGE_SCAN_NOTES
from memsyncd.engine.sync import SyncDone
from memsyncd.engine.worker import Job, QueryPool, WorkerPool, call_within
from memsyncd.engine.workspace import Entry, Settings, Workspace
from memsyncd.engine.workspaces import Workspaces
from memsyncd.errors import AlreadyRunning, BadConfig, BadRequest, Busy, MemsyncdError
from memsyncd.files.scope import make_root
from memsyncd.lock import FolderLocks, Holder
from memsyncd.logs import Event, LineStream, get_log, set_up_logs
from memsyncd.operations.daemon import Facts, Load
from memsyncd.operations.operation import load_function
from memsyncd.operations.status.declare import PanelAddress
from memsyncd.operations.table import OPERATIONS
from memsyncd.protocol.jsonrpc import MCP_WAITING
from memsyncd.server.handlers import Handlers
from memsyncd.server.listen import (
    OwnedSocket,
    check_outside,
    load_token,
    make_url,
    open_port,
    open_socket,
)
from memsyncd.server.reads import Reads
from memsyncd.server.requests import RequestLog, make_client_log
from memsyncd.server.server import Server
from memsyncd.server.session import Limits
from memsyncd.store.connection import sqlite_version

if TYPE_CHECKING:
    from memsyncd.protocol.http import Access

# A search gives the interpreter's lock away some hundred times, and beside a thread that computes
# it gets the lock back after this time. With 1 ms a question about 240,000 sections takes four
# times as long beside such a thread as alone, with this interval twice as long.
SWITCH_INTERVAL_S = 0.0002
# One is kept for clients whose reads are short, and most laptops have two processors or more.
QUERY_THREADS = 3
IMPORT_DELAY_S = 1.0
"""When the modules are imported that the start does not need: after the first scans."""
FIRST_WRITE = "note.add"
"""The operation of the first write, whose modules are imported then, too."""
STOP_GRACE_S = 1.0
"""With the time that the server and the engine take to stop, the process ends within 5 s."""
T = TypeVar("T")

# How long to wait for the folders of the configuration, and for a folder that is added: a disk may
# not answer.
FOLDER_TIMEOUT_S, ADD_TIMEOUT_S = 0.5, 5.0
# How long to wait for each further folder of the configuration: the event loop waits meanwhile.
LATE_FOLDER_TIMEOUT_S = 0.05

log = get_log("daemon")


def run(*, paths: list[str], env: Mapping[str, str], terminal: bool) -> int:
    """Run the daemon until SIGTERM, SIGINT or a failure; return the exit status.

    The workspaces in `paths` are added first. Raises MemsyncdError if the daemon cannot start: a
    bad configuration, another daemon, an unsafe folder.
    """
    os.umask(0o077)
    resources.use_one_malloc_arena()
    resources.freeze_loaded_objects()
    resources.raise_file_limit()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    dirs = find_dirs(env, os.path.expanduser("~"), sys.platform)
    loaded = load_config(dirs.config_file, env)
    if loaded.config.socket.path and not has_named_socket(env):
        dirs = dirs.with_socket(loaded.config.socket.path)
    stream = ProgressStream(sys.stderr) if terminal else None
    configure_logs = partial(_configure_logs, stream=stream or sys.stderr, is_terminal=terminal)
    configure_logs(loaded)
    sqlite = sqlite_version()
    inherited = inherit_socket(env, os.getpid())
    locks = FolderLocks(dirs.lock_paths, Holder(os.getpid(), __version__, dirs.socket_path))
    port = owned = None
    try:
        owned = open_socket(dirs.socket_path, inherited=inherited)
        port = _open_port(dirs, loaded.config)
        has_colour = terminal and not env.get("NO_COLOR") and env.get("TERM") != "dumb"
        display = StartupDisplay(stream, has_colour=has_colour)
        opened = Opened(locks, owned, port)
        daemon = _Daemon(dirs, loaded, env, opened, sqlite, display, configure_logs)
        for name in (*LISTEN_VARIABLES, *NOTIFY_VARIABLES):
            os.environ.pop(name, None)  # they are for this process, not for its children
        status = asyncio.run(daemon.run(paths))
    finally:
        if owned is not None:
            owned.close()
        if port is not None:
            port.sock.close()
    if daemon.is_blocked:
        _exit_at_once(status)  # which releases the locks: a blocked thread may write until then
    locks.close()
    return status


class _Daemon:
    """One run of the daemon."""

    def __init__(
        self,
        dirs: Dirs,
        loaded: Loaded,
        env: Mapping[str, str],
        opened: Opened,
        sqlite: str,
        display: StartupDisplay,
        configure_logs: Callable[[Loaded], None],
    ) -> None:
        self._dirs = dirs
        self._loaded = loaded
        self._env = env
        self._locks = opened.locks
        self._owned = opened.socket
        self._port = opened.port
        self._sqlite = sqlite
        self._display = display
        self._notify = find_notify_socket(env, os.getpid())
        self._configure_logs = configure_logs
        self._config_stat = _stat_version(dirs.config_file)
        self._is_config_refused = False
        self._logged_lock_problem = ""
        # The configuration of the start, whose socket and port the daemon keeps until it ends.
        self._started_with = loaded.config
        self._waiting_keys = ""
        self._is_on_terminal = _has_terminal()
        self.is_blocked = False
        """True if a thread has not returned when everything else has ended."""
        self._clock = Clock(now_s=time.monotonic, wall_ns=time.time_ns, asleep_s=_read_suspended_s)
        self._registry = Registry(
            Path(dirs.state_dir) / "workspaces.json",
            home=os.path.expanduser("~"),
            uid=os.geteuid(),
        )

    async def run(self, paths: list[str]) -> int:
        """Start, serve, stop. The socket answers from before the first index until the end."""
        log.debug(Event.DAEMON_STARTED, version=__version__, pid=os.getpid())
        for warning in self._loaded.warnings:
            log.warning(Event.CONFIG_WARNING, reason=warning)
        self._report_locks()
        self._stopping = asyncio.Event()
        self._rebinding: asyncio.Task[None] | None = None
        self._make_engine()
        self._make_server()
        liveness = Liveness(
            make_probes(self._workspaces, self._threads), {"store": lambda: self._threads.n_done}
        )
        self._reporter = SystemdReporter(self._notify, liveness, self._workspaces.by_id)
        self._workspaces.scheduler.on_building = self._reporter.report_indexing
        self._workspaces.scheduler.on_tidied = self._release_memory
        try:
            self._start_engine(paths)
            await self._serve()
        finally:
            await self._stop()
        return 0

    def _make_engine(self) -> None:
        self._workspaces = Workspaces(
            registry=self._registry,
            state_dir=Path(self._dirs.state_dir),
            cache_dir=Path(self._dirs.cache_dir),
            config=self._loaded.config,
            clock=self._clock,
            on_reconcile=self._on_reconcile,
        )
        self._workspaces.listen(self._on_sync)
        # A long work has a thread of its own, so that no other read waits for it.
        returned = self._workspaces.stalls.note_returned
        self._threads = QueryPool(QUERY_THREADS + 1, on_returned=returned)

    def _make_server(self) -> None:
        reads = Reads(self._workspaces, self._threads, self._clock, QUERY_THREADS)
        reads.on_long_work_ended = self._release_memory
        limits = Limits(**structs.asdict(self._loaded.config.socket))
        handlers = Handlers(self._workspaces, self._clock, reads, self._facts(), limits)
        self._sharing = handlers.sharing
        self._workspaces.listen(self._sharing.note_synced)
        self._server = Server(
            handlers.dispatch,
            limits,
            on_answer=RequestLog(self._clock.now_s).add,
            after_methods={
                name: self._report_indexing
                for name, operation in OPERATIONS.items()
                if operation.changes_workspaces
            },
            on_error=_log_internal_error,
            on_refuse=make_client_log(Event.CLIENT_REFUSED, self._clock.now_s),
            on_drop=make_client_log(Event.CLIENT_DROPPED, self._clock.now_s),
            waiting_methods=MCP_WAITING.union(
                name for name, operation in OPERATIONS.items() if operation.waits
            ),
            marks_instructions=lambda: self._loaded.config.guard.has_instructions,
            is_watching=lambda: self._workspaces.watching.is_on,
            note_answer=handlers.note_answer,
        )

    def _start_engine(self, paths: list[str]) -> None:
        self._workspaces.start(to_entries(self._loaded.config, self._registry, FolderAccess()))
        # Checked before they are added: a registered folder that holds the socket would keep the
        # next daemon from starting, too.
        registered = [workspace.entry.root for workspace in self._workspaces.by_id.values()]
        check_roots(self._owned.path, [*paths, *registered], FolderAccess())
        for path in paths:
            seen = check_new_folder(self._workspaces, path)
            self._workspaces.add(path, seen=seen)

    async def _serve(self) -> None:
        loop, stopping = asyncio.get_running_loop(), self._stopping
        loop.set_exception_handler(resources.LoopExceptionHandler(self._clock.now_s).handle)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stopping.set)
        loop.add_signal_handler(signal.SIGHUP, self._on_hangup)
        await self._server.start(self._owned.sock)
        if self._port is not None:
            await self._server.start_port(self._port.sock, self._port.access)
        self._reporter.start(self._owned.path)
        workspaces = self._workspaces.by_id
        log.debug(Event.DAEMON_READY, socket=self._owned.path, workspaces=len(workspaces))
        self._display.show_listening(self._owned.path, workspaces.values())
        showing = asyncio.create_task(
            self._display.show_indexing(workspaces, lambda: self._workspaces.config.kinds)
        )
        loop.call_later(IMPORT_DELAY_S, self._workspaces.prepare, _import_late)
        await stopping.wait()
        showing.cancel()

    async def _stop(self) -> None:
        log.debug(Event.DAEMON_STOPPING)
        await self._reporter.stop()
        await self._server.stop(STOP_GRACE_S)
        self._sharing.stop()
        # On a thread: jobs that end meanwhile pass their results to the loop.
        stopping = WorkerPool("memsyncd-stop")
        is_ended = await asyncio.wrap_future(stopping.call(self._workspaces.stop))
        self._threads.shutdown()
        self.is_blocked = not is_ended or self._threads.pool.is_alive()
        log.debug(Event.DAEMON_STOPPED)

    # --- socket and configuration

    def _on_reconcile(self) -> None:
        """At each reconcile: release memory, check the configuration's file, the locks' and the
        socket's.
        """
        resources.release_memory()
        try:
            self._locks.renew()
        except MemsyncdError as failure:
            log.error(Event.SOCKET_LOST, socket=self._owned.path, reason=failure.message)
            self._stopping.set()
            return
        self._report_locks()
        if _stat_version(self._dirs.config_file) != self._config_stat:
            self._reload()
        is_rebinding = self._rebinding is not None and not self._rebinding.done()
        if not self._owned.is_ours() and not is_rebinding:
            self._rebinding = asyncio.create_task(self._rebind())

    def _report_locks(self) -> None:
        """Log each reason once why a folder is not locked."""
        problem = self._locks.problem
        if problem and problem != self._logged_lock_problem:
            log.warning(Event.LOCK_PROBLEM, reason=problem)
        self._logged_lock_problem = problem

    async def _rebind(self) -> None:
        """Listen again after the socket's file was removed; stop if another daemon listens there.

        If another file is at the path, report it. The next reconcile tries again.
        """
        try:
            await self._server.start(self._owned.rebind())
        except AlreadyRunning as failure:
            log.error(Event.SOCKET_LOST, socket=self._owned.path, reason=failure.message)
            self._stopping.set()
        except MemsyncdError as failure:
            self._report_socket(failure.message, failure.hint)
        except OSError as failure:
            self._report_socket(str(failure), "see what is at the socket's path")
        else:
            log.warning(Event.SOCKET_REBOUND, socket=self._owned.path)
            self._report_socket("", "")

    def _report_socket(self, problem: str, hint: str) -> None:
        """Report why no new client can connect, empty if one can. Each reason is logged once."""
        if problem and problem != self._reporter.socket_problem:
            log.error(Event.SOCKET_BLOCKED, socket=self._owned.path, reason=problem, hint=hint)
        self._reporter.socket_problem = problem
        self._reporter.report_status()

    def _on_hangup(self) -> None:
        """Reload on SIGHUP; stop if it came because the daemon's terminal was closed."""
        if self._is_on_terminal and not _has_terminal():
            self._stopping.set()
        else:
            self._reload()

    def _reload(self) -> None:
        """Load the configuration again; a bad one is refused and the old one stays in force."""
        self._reporter.reload(self._owned.path)
        self._config_stat = _stat_version(self._dirs.config_file)
        try:
            loaded = load_config(self._dirs.config_file, self._env)
            access = FolderAccess()
            entries = to_entries(loaded.config, self._registry, access)
            check_roots(self._owned.path, [entry.root for entry in entries], access)
        except MemsyncdError as failure:
            log.error(Event.CONFIG_REFUSED, reason=failure.message, hint=failure.hint)
            self._is_config_refused = True
            return
        self._is_config_refused = False
        changed = find_changed_keys(self._loaded.config, loaded.config)
        self._loaded = loaded
        self._configure_logs(loaded)
        self._workspaces.reload(loaded.config, entries)
        log.info(Event.CONFIG_RELOADED, config=loaded.path, keys=", ".join(changed) or "none")
        waiting = RESTART_KEYS.intersection(find_changed_keys(self._started_with, loaded.config))
        self._waiting_keys = ", ".join(sorted(waiting))
        if waiting and RESTART_KEYS.intersection(changed):
            reason = "takes effect after a restart"
            log.warning(Event.CONFIG_WARNING, keys=self._waiting_keys, reason=reason)

    # --- called by the server and the engine

    def _report_indexing(self) -> None:
        self._reporter.report_indexing()

    def _on_sync(self, _workspace: Workspace, done: SyncDone) -> None:
        self._reporter.report_status()
        if done.n_unchanged >= LARGE_SCAN_NOTES:
            self._release_memory()

    def _release_memory(self) -> None:
        """On the worker's thread, because it may take some milliseconds."""
        self._workspaces.call(resources.release_memory)

    def _facts(self) -> Facts:
        return Facts(
            pid=os.getpid(),
            socket=self._owned.path,
            find_http=lambda: self._port and (self._port.url, self._dirs.http_token),
            open_panel=self._open_panel,
            find_config=self._find_config,
            sqlite=self._sqlite,
            started_at_s=self._clock.now_s(),
            read_process=resources.read_process_stats,
            read_load=self._read_load,
            read_rss=resources.read_rss_bytes,
            find_socket_problem=lambda: self._reporter.socket_problem,
            find_lock_problem=lambda: self._locks.problem,
        )

    def _find_config(self) -> str:
        loaded = self._loaded
        if self._is_config_refused:
            return f"{loaded.path} (refused since it changed: memsyncd config check)"
        if self._waiting_keys:
            return f"{loaded.path} ({self._waiting_keys} changed: memsyncd restart)"
        return loaded.path if loaded.is_file_found else f"{loaded.path} (none: defaults)"

    async def _open_panel(self) -> PanelAddress:
        """Open a port, unless there is one, and make an address of the panel."""
        from memsyncd.server.panel import TOKEN_AGE_S, remember_port

        if self._port is None:
            port = _bind_port(self._dirs, ("127.0.0.1", 0))
            self._port = port
            await self._server.start_port(port.sock, port.access)
        if self._loaded.config.http.address is None:
            remember_port(self._dirs.panel_port, self._port.access.port)
        url = f"{self._port.url}/panel/open?token={self._server.make_panel_token()}"
        return PanelAddress(url=url, expires_s=TOKEN_AGE_S)

    def _read_load(self) -> Load:
        server = self._server
        return Load(
            n_clients=server.n_clients,
            n_running=server.n_running,
            n_waiting=server.n_waiting,
            counts=server.counters,
        )


class Opened(NamedTuple):
    """Opened before the daemon runs, and closed when it has ended."""

    locks: FolderLocks
    socket: OwnedSocket
    port: Port | None


class Port(NamedTuple):
    """The loopback port: its socket, its URL, and what its clients must know."""

    sock: socket.socket
    url: str
    access: Access


def _open_port(dirs: Dirs, config: Config) -> Port | None:
    """Open the port that the configuration names, or the panel's if it was used lately; a daemon
    without one imports nothing for it.
    """
    if config.http.address is not None:
        return _bind_port(dirs, config.http.address)
    if not os.path.exists(dirs.panel_port):
        return None
    from memsyncd.server.panel import find_port

    number = find_port(dirs.panel_port, time.time())
    # Another program may have the port by now: the panel gets another one when it is opened.
    with contextlib.suppress(BadConfig):
        return _bind_port(dirs, ("127.0.0.1", number)) if number else None
    return None


def _bind_port(dirs: Dirs, address: tuple[str, int]) -> Port:
    from memsyncd.protocol.http import Access

    token = load_token(dirs.http_token)
    sock = open_port(address)
    return Port(sock, make_url(sock), Access(port=sock.getsockname()[1], token=token))


def _import_late() -> Job[None]:
    """Import the modules that the first save and the first write need, so that they do not wait for
    them.
    """
    import memsyncd.core.markdown.parse

    yield
    import memsyncd.server.dispatch  # noqa: F401

    load_function(OPERATIONS[FIRST_WRITE].run)
    yield
    # A first start, which compiles the modules, leaves megabytes of freed memory.
    resources.release_memory()


def _configure_logs(loaded: Loaded, *, stream: LineStream, is_terminal: bool) -> None:
    options = loaded.config.log
    set_up_logs(level=options.level, format=options.format, stream=stream, is_terminal=is_terminal)


def _exit_at_once(status: int) -> NoReturn:
    # A thread that waits for a disk must not run while the interpreter is torn down around it.
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)


def _has_terminal() -> bool:
    try:
        return os.isatty(2)
    except OSError:
        return False


def _stat_version(path: str) -> tuple[int, int, int] | None:
    """Return values that identify a version of the file; None if there is no file."""
    try:
        stat = os.stat(path)
    except OSError:
        return None
    return stat.st_ino, stat.st_size, stat.st_mtime_ns


def _log_internal_error(failure: Exception, place: str) -> None:
    reason = type(failure).__name__
    log.error(Event.REQUEST_FAILED, method=place, reason=reason, exc_info=failure)


def _read_suspended_s() -> float:
    """Return how long the machine was suspended since boot; 0 without a clock that counts it."""
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    return 0.0 if boot is None else time.clock_gettime(boot) - time.monotonic()


# --- from the configuration to workspaces ---


class FolderAccess:
    """Read several folders; some may be on a disk that does not answer.

    All reads together wait for FOLDER_TIMEOUT_S, each read after that for LATE_FOLDER_TIMEOUT_S.
    """

    def __init__(self) -> None:
        self._end_s = time.monotonic() + FOLDER_TIMEOUT_S

    def read(self, call: Callable[[], T]) -> T | None:
        """Return the result of the function, None if the disk does not answer in time."""
        left_s = self._end_s - time.monotonic()
        return call_within(max(left_s, LATE_FOLDER_TIMEOUT_S), call, None)


def to_entries(config: Config, registry: Registry, access: FolderAccess) -> list[Entry]:
    """Return the configured workspaces, also those whose folder does not exist yet.

    Raises BadConfig for invalid folders and globs.
    """
    entries = []
    for row in config.workspace:
        path = os.path.expanduser(row.path)
        try:
            root = access.read(partial(make_root, path))
            settings = Settings(
                name=row.name,
                include=row.include,
                exclude=row.exclude,
                read_only=row.read_only,
                preset=row.preset,
                memory_dir=row.memory_dir,
                is_user_wide=row.user,
                allow_links_to=row.allow_links_to,
            )
            # A disk that does not answer keeps no daemon from starting: the path is taken to have
            # no links.
            seen = root or make_root(path, is_real=True)
            entry = registry.make_entry(row.path, settings, seen=seen)
        except BadRequest as failure:
            message = f"workspace {row.path}: {failure.message}"
            raise BadConfig(message, hint=failure.hint) from failure
        find_refusal = partial(_find_refusal, registry, entry)
        refusal = None if root is None else access.read(find_refusal)
        if refusal is not None:
            raise BadConfig(f"workspace {row.path}: {refusal.message}", hint=refusal.hint)
        entries.append(structs.replace(entry, source="config"))
    return entries


def check_roots(socket: str, roots: Iterable[str], access: FolderAccess) -> None:
    """Call `check_outside` for each folder; skip one that does not answer in time."""
    for root in roots:
        access.read(partial(check_outside, socket, [root]))


def check_new_folder(workspaces: Workspaces, path: str) -> FolderCheck:
    """Check a folder that is to be added, before the loop runs. Raises Busy if its disk stalls."""
    seen = call_within(ADD_TIMEOUT_S, partial(workspaces.check_folder, path, ()), None)
    if seen is None:
        hint = "start without it, and once its disk answers: memsyncd add PATH"
        message = f"the disk under {path}, or under another workspace, does not answer"
        raise Busy(message, hint=hint)
    return seen


def _find_refusal(registry: Registry, entry: Entry) -> MemsyncdError | None:
    return registry.find_refusal(entry) if os.path.exists(entry.root) else None
