"""How does the daemon begin, go on and end?

The order is the safety: the lock and the socket before anything is written, the socket answering before anything is indexed, and
at the end everything that was started waited for. The clock is read here and handed to those who need time.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import NoReturn

from memsyncd import __version__
from memsyncd.config import RESTART_KEYS, Loaded, find_changed_keys, load_config
from memsyncd.daemon.activation import VARIABLES as LENT_VARIABLES
from memsyncd.daemon.activation import take_lent_socket
from memsyncd.daemon.files import LoopTrouble, raise_file_limit
from memsyncd.daemon.foreground import Foreground, Screen
from memsyncd.daemon.memory import give_back, keep_program, share_heap
from memsyncd.daemon.notify import VARIABLES as SUPERVISOR_VARIABLES
from memsyncd.daemon.notify import find_supervisor
from memsyncd.daemon.pulse import Pulse, make_proofs
from memsyncd.daemon.requests import RequestLog, make_client_log
from memsyncd.daemon.settings import check_roots, look_at_new, to_entries, to_limits, to_search_policy, to_sync_policy
from memsyncd.daemon.supervised import Supervised
from memsyncd.daemon.vitals import read_vitals
from memsyncd.dirs import Dirs, find_dirs, has_named_socket
from memsyncd.engine.house import House
from memsyncd.engine.policies import Clock
from memsyncd.engine.queries import QueryThreads
from memsyncd.engine.registry import Registry
from memsyncd.engine.sync import SyncDone
from memsyncd.engine.workers import WorkerPool
from memsyncd.engine.workspaces import Workspace
from memsyncd.errors import AlreadyRunning, MemsyncdError
from memsyncd.logs import Event, LineStream, get_log, set_up_logs
from memsyncd.server.counts import Answered
from memsyncd.server.handlers import WAITING_METHODS, Handlers
from memsyncd.server.operations import Facts, Load
from memsyncd.server.reads import Reads
from memsyncd.server.sockets import OwnedSocket, open_socket
from memsyncd.server.unix import Server
from memsyncd.store.connections import check_sqlite

SWITCH_INTERVAL_S = 0.001
"""So that an answer need not wait 5 ms for each turn of the thread that indexes."""
QUERY_THREADS = 2
GIVE_BACK_AFTER_S = 7.0
MANY_CHUNKS = 500
STOP_GRACE_S = 1.0
"""With what `server` and `house` take at most it makes less than five seconds until the process has ended."""

log = get_log("daemon")


def run(*, paths: list[str], env: Mapping[str, str], terminal: bool) -> int:
    """Be the daemon until SIGTERM, SIGINT or a failure; `paths` are added first. Returns the exit status.

    Raises MemsyncdError for what keeps it from starting: a bad configuration, another daemon, an unsafe folder.
    """
    os.umask(0o077)
    share_heap()
    keep_program()
    raise_file_limit()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    dirs = find_dirs(env, os.path.expanduser("~"), sys.platform)
    loaded = load_config(dirs.config_file, env)
    if loaded.config.socket.path and not has_named_socket(env):
        dirs = dirs.with_socket(loaded.config.socket.path)
    screen = Screen(sys.stderr) if terminal else None
    say = partial(_set_up_logs, stream=screen or sys.stderr, is_terminal=terminal)
    say(loaded)
    sqlite = check_sqlite()
    owned = open_socket(dirs.socket_path, dirs.lock_path, lent=take_lent_socket(env, os.getpid()))
    try:
        has_colour = terminal and not env.get("NO_COLOR") and env.get("TERM") != "dumb"
        foreground = Foreground(screen, has_colour=has_colour)
        daemon = _Daemon(dirs, loaded, env, owned, sqlite, foreground, say)
        for name in (*LENT_VARIABLES, *SUPERVISOR_VARIABLES):
            os.environ.pop(name, None)  # meant for this process, and for none that it may start
        status = asyncio.run(daemon.live(paths))
    finally:
        owned.close()
    if daemon.is_blocked:
        _leave_at_once(status)
    return status


class _Daemon:
    """One life of the process."""

    def __init__(
        self,
        dirs: Dirs,
        loaded: Loaded,
        env: Mapping[str, str],
        owned: OwnedSocket,
        sqlite: str,
        foreground: Foreground,
        set_up_logs_by: Callable[[Loaded], None],
    ) -> None:
        self._dirs = dirs
        self._loaded = loaded
        self._env = env
        self._owned = owned
        self._sqlite = sqlite
        self._foreground = foreground
        self._supervisor = find_supervisor(env, os.getpid())
        self._set_up_logs = set_up_logs_by
        self._config_stamp = _read_stamp(dirs.config_file)
        self._is_on_terminal = _has_terminal()
        self.is_blocked = False
        """True if a thread had not returned when everything else had ended."""
        self._clock = Clock(now_s=time.monotonic, wall_ns=time.time_ns, asleep_s=_read_asleep_s)
        self._registry = Registry(Path(dirs.state_dir) / "workspaces.json", home=os.path.expanduser("~"), uid=os.geteuid())

    async def live(self, paths: list[str]) -> int:
        """Begin, serve, end. The socket answers from before the first index until after the last request."""
        log.debug(Event.DAEMON_STARTED, version=__version__, pid=os.getpid())
        config = self._loaded.config
        for warning in self._loaded.warnings:
            log.warning(Event.CONFIG_WARNING, reason=warning)
        self._stopping = asyncio.Event()
        self._rebinding: asyncio.Task[None] | None = None
        self._house = House(
            registry=self._registry,
            state_dir=Path(self._dirs.state_dir),
            cache_dir=Path(self._dirs.cache_dir),
            policy=to_sync_policy(config),
            clock=self._clock,
            on_reconcile=self._look_around,
        )
        self._threads = QueryThreads(QUERY_THREADS, on_returned=self._house.stalls.note_returned)
        reads = Reads(self._house, self._threads, self._clock, QUERY_THREADS)
        policy = to_search_policy(config)
        self._handlers = Handlers(self._house, policy, self._clock, reads, self._facts())
        self._server = Server(
            self._handlers.dispatch,
            to_limits(config),
            on_answer=self._answered,
            on_error=_say_failed,
            on_refuse=make_client_log(Event.CLIENT_REFUSED, self._clock.now_s),
            on_drop=make_client_log(Event.CLIENT_DROPPED, self._clock.now_s),
            waiting_methods=WAITING_METHODS,
        )
        self._request_log = RequestLog(self._clock.now_s)
        self._house.listen(self._synced)
        pulse = Pulse(make_proofs(self._house, self._threads), {"store": lambda: self._threads.n_done})
        self._supervised = Supervised(self._supervisor, pulse, self._house.workspaces)
        self._house.rounds.on_building = self._supervised.follow_indexing
        try:
            self._begin(paths)
            await self._serve()
        finally:
            await self._end()
        return 0

    def _begin(self, paths: list[str]) -> None:
        self._house.start(to_entries(self._loaded.config, self._registry))
        # Before they are added: what is once registered would keep the next daemon from starting, too.
        check_roots(self._owned.path, [*paths, *(workspace.entry.root for workspace in self._house.workspaces.values())])
        for path in paths:
            self._house.add(path, name="", include=(), exclude=(), seen=look_at_new(self._house, path))

    async def _serve(self) -> None:
        loop, stopping = asyncio.get_running_loop(), self._stopping
        loop.set_exception_handler(LoopTrouble(self._clock.now_s).take)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stopping.set)
        loop.add_signal_handler(signal.SIGHUP, self._hang_up)
        await self._server.start(self._owned.sock)
        self._supervised.begin(self._owned.path)
        log.debug(Event.DAEMON_READY, socket=self._owned.path, workspaces=len(self._house.workspaces))
        self._foreground.greet(self._owned.path, self._house.workspaces.values())
        watching = asyncio.create_task(self._foreground.follow(self._house.workspaces))
        await stopping.wait()
        watching.cancel()

    async def _end(self) -> None:
        log.debug(Event.DAEMON_STOPPING)
        await self._supervised.end()
        await self._server.stop(STOP_GRACE_S)
        # On a thread, so that what ends there may still hand its last word to the loop.
        stopping = WorkerPool("memsyncd-stop")
        is_ended = await asyncio.wrap_future(stopping.call(self._house.stop))
        self._threads.shutdown()
        self.is_blocked = not is_ended or self._threads.pool.is_alive()
        log.debug(Event.DAEMON_STOPPED)

    def _look_around(self) -> None:
        """At each timed look: has the configuration changed, do clients still find the socket, is there memory to spare?"""
        give_back()
        if _read_stamp(self._dirs.config_file) != self._config_stamp:
            self._reload()
        if not self._owned.is_ours() and (self._rebinding is None or self._rebinding.done()):
            self._rebinding = asyncio.create_task(self._rebind())

    async def _rebind(self) -> None:
        """The socket's file was taken away: listen anew, or end if another daemon has its place.

        Whatever else is there is reported. The next timed look tries again, until the place is free.
        """
        try:
            await self._server.start(self._owned.rebind())
        except AlreadyRunning as failure:
            log.error(Event.SOCKET_LOST, socket=self._owned.path, reason=failure.message)
            self._stopping.set()
        except MemsyncdError as failure:
            self._note_socket(failure.message, failure.hint)
        except OSError as failure:
            self._note_socket(str(failure), "see what is at the socket's path")
        else:
            log.warning(Event.SOCKET_REBOUND, socket=self._owned.path)
            self._note_socket("", "")

    def _note_socket(self, problem: str, hint: str) -> None:
        """Why no new client can connect; empty if one can. The log says it once for each reason."""
        if problem and problem != self._supervised.socket_problem:
            log.error(Event.SOCKET_BLOCKED, socket=self._owned.path, reason=problem, hint=hint)
        self._supervised.socket_problem = problem
        self._supervised.say_status()

    def _hang_up(self) -> None:
        """SIGHUP: reload; but if it came because the terminal that this runs on was closed, end with it."""
        if self._is_on_terminal and not _has_terminal():
            self._stopping.set()
        else:
            self._reload()

    def _reload(self) -> None:
        """Read the configuration again; a bad one is refused and the old stays."""
        self._supervised.reload(self._owned.path)
        self._config_stamp = _read_stamp(self._dirs.config_file)
        try:
            loaded = load_config(self._dirs.config_file, self._env)
            entries = to_entries(loaded.config, self._registry)
            check_roots(self._owned.path, [entry.root for entry in entries])
        except MemsyncdError as failure:
            log.error(Event.CONFIG_REFUSED, reason=failure.message, hint=failure.hint)
            return
        changed = find_changed_keys(self._loaded.config, loaded.config)
        self._loaded = loaded
        self._set_up_logs(loaded)
        self._house.reload(to_sync_policy(loaded.config), entries)
        self._handlers.search_policy = to_search_policy(loaded.config)
        log.info(Event.CONFIG_RELOADED, config=loaded.path, keys=", ".join(changed) or "none")
        waiting = RESTART_KEYS.intersection(changed)
        if waiting:
            log.warning(Event.CONFIG_WARNING, keys=", ".join(sorted(waiting)), reason="takes effect after a restart")

    def _answered(self, answered: Answered) -> None:
        self._request_log.note(answered)
        self._supervised.heed(answered.method)

    def _synced(self, _workspace: Workspace, done: SyncDone) -> None:
        self._supervised.say_status()
        if done.n_upserted > MANY_CHUNKS:
            asyncio.get_running_loop().call_later(GIVE_BACK_AFTER_S, give_back)

    def _facts(self) -> Facts:
        return Facts(
            pid=os.getpid(),
            socket=self._owned.path,
            config=self._loaded.path if self._loaded.is_file_found else f"{self._loaded.path} (none: defaults)",
            sqlite=self._sqlite,
            started_at_s=self._clock.now_s(),
            read_process=read_vitals,
            read_load=self._read_load,
            find_socket_problem=lambda: self._supervised.socket_problem,
        )

    def _read_load(self) -> Load:
        server = self._server
        return Load(n_clients=server.n_clients, n_running=server.n_running, n_waiting=server.n_waiting, counts=server.counts)


def _set_up_logs(loaded: Loaded, *, stream: LineStream, is_terminal: bool) -> None:
    wanted = loaded.config.log
    set_up_logs(level=wanted.level, format=wanted.format, stream=stream, is_terminal=is_terminal)


def _leave_at_once(status: int) -> NoReturn:
    """End the process although a thread waits for a disk, which would see the interpreter taken apart around it."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)


def _has_terminal() -> bool:
    try:
        return os.isatty(2)
    except OSError:
        return False


def _read_stamp(path: str) -> tuple[int, int, int] | None:
    """What tells one version of a file from another, None if there is no file."""
    try:
        stat = os.stat(path)
    except OSError:
        return None
    return stat.st_ino, stat.st_size, stat.st_mtime_ns


def _say_failed(failure: Exception, place: str) -> None:
    log.error(Event.REQUEST_FAILED, method=place, reason=type(failure).__name__, exc_info=failure)


def _read_asleep_s() -> float:
    """How long the machine has slept since it booted; 0 where the system has no clock that goes on."""
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    return 0.0 if boot is None else time.clock_gettime(boot) - time.monotonic()
