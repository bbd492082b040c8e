// The state of the workspaces, and for developers the daemon's counters and the end of its log.

import { bytes, command, count, fill, h, table, when } from "./dom.js";
import { call } from "./rpc.js";
import { makeHref, report, View } from "./view.js";

/** @type {Record<string, string>} */
const STATES = { ready: "up to date", indexing: "reading notes", degraded: "degraded", missing: "folder missing", stalled: "stalled" };

export class StatusView extends View {
  constructor() {
    super();
    this.isPolled = true;
    this.workspaces = h("section");
    this.agents = h("section");
    this.daemon = h("section");
    this.details = h("div");
    this.developers = h("details", { ontoggle: () => void this.reload() }, h("summary", {}, "For developers: requests, log, paths"), this.details);
  }

  connectedCallback() {
    if (!this.firstChild) fill(this, this.workspaces, this.agents, this.daemon, this.developers);
  }

  hasSelection() {
    const selection = document.getSelection();
    return Boolean(selection && !selection.isCollapsed && selection.anchorNode && this.contains(selection.anchorNode));
  }

  /** Compare the files of a workspace with its index now. @param {string} workspace */
  async sync(workspace) {
    try {
      const done = await call("sync", { workspace });
      const changed = done.added + done.modified + done.moved + done.removed;
      report(`read again in ${done.duration_ms.toFixed(0)} ms: ${changed ? `${count(changed, "note")} had changed` : "nothing had changed"}${done.failed.length ? `, ${count(done.failed.length, "note")} could not be read: see Problems` : ""}`);
      await this.reload();
    } catch (error) {
      report(error);
    }
  }

  /** @param {AbortSignal} signal */
  async read(signal) {
    const [status, semantic, metrics] = await Promise.all([call("status", {}, signal), call("semantic.status", {}, signal), call("metrics", {}, signal)]);
    const logged = this.developers.open ? await call("log.tail", {}, signal) : null;
    // If the text were replaced while it is selected, it could not be copied.
    if (this.hasSelection()) return;
    const meaning = new Map(semantic.workspaces.map((/** @type {any} */ workspace) => [workspace.name, workspace.semantic]));
    fill(this.workspaces, h("h2", {}, "Workspaces"), status.workspaces.map((/** @type {any} */ workspace) => this.makeWorkspace(workspace, meaning.get(workspace.name))),
      h("p", { class: "tools" }, h("a", { class: "button main", href: makeHref("start", this.place.workspace) }, "Watch another folder…")));
    fill(this.agents, h("h2", {}, "Agents"), status.agents?.length ? h("dl", { class: "facts" }, status.agents.map((/** @type {any} */ agent) => fact(agent.name, when(agent.last_call_at))))
      : status.agents ? h("p", { class: "quiet" }, "The log of agents has no call. Connect the agents of this machine: ", command("memsyncd integrate"))
        : h("p", { class: "quiet" }, "No log of agents is kept, because agents.enabled is false in the configuration."));
    fill(this.daemon, h("h2", {}, "Daemon"), h("dl", { class: "facts" }, fact("Version", status.version), fact("Running since", when(Date.now() / 1000 - status.uptime_s)), fact("Memory", bytes(status.rss_bytes)),
      fact("Clients", status.clients), fact("Requests", `${status.requests.toLocaleString()}${describeFailed(metrics)}`),
      fact("Search by meaning", semantic.enabled ? `on${semantic.process ? `, ${bytes(semantic.process.rss_bytes)} of memory` : ""}` : `off${semantic.workspaces[0]?.semantic.reason ? `: ${semantic.workspaces[0].semantic.reason}` : ""}`)),
    [status.socket_problem, status.lock_problem].map((problem) => problem && h("p", { class: "failure" }, problem)));
    if (logged) this.showDetails(status, metrics, logged);
  }

  /** @param {any} workspace @param {any} semantic */
  makeWorkspace(workspace, semantic) {
    return h("section", { class: "card" }, h("h3", {}, h("a", { class: "entry", href: makeHref("notes", workspace.id) }, workspace.name), " ", h("span", { class: `dot small ${workspace.state}` }, STATES[workspace.state] ?? workspace.state)),
      h("p", { class: "quiet small" }, h("code", {}, workspace.root)), workspace.reasons.map((/** @type {string} */ reason) => h("p", { class: "warning" }, reason)),
      h("dl", { class: "facts" }, fact("Notes", workspace.files.toLocaleString()), fact("Sections", workspace.sections.toLocaleString()), workspace.pending > 0 && fact("To read", workspace.pending.toLocaleString()),
        fact("Problems", h("a", { href: makeHref("problems", workspace.id), "aria-label": `${count(workspace.problems, "problem")} of ${workspace.name}` }, workspace.problems)), fact("Index", bytes(workspace.index_bytes)),
        fact("Read", workspace.last_sync_at ? when(workspace.last_sync_at) : "never"), workspace.watcher !== "inotify" && workspace.watcher !== "fsevents" && fact("Watching", workspace.watcher),
        semantic && semantic.state !== "off" && fact("By meaning", `${semantic.state}${semantic.pending ? `, ${semantic.pending.toLocaleString()} passages to come` : ""}`)),
      h("p", { class: "tools" }, h("button", { type: "button", "aria-label": `Read ${workspace.name} again now`, onclick: () => this.sync(workspace.id) }, "Read again")));
  }

  /** @param {any} status @param {any} metrics @param {any} logged */
  showDetails(status, metrics, logged) {
    const requests = metrics.requests.map((/** @type {any} */ request) => [h("code", {}, request.method), request.answered.total, request.answered.p50_ms?.toFixed(1), request.answered.p95_ms?.toFixed(1), request.answered.p99_ms?.toFixed(1),
      Object.entries(request.failed_total).map(([code, n]) => `${code} ${n}`).join(", ")]);
    fill(this.details, h("dl", { class: "facts" }, fact("Process", status.pid), fact("SQLite", status.sqlite), fact("Socket", h("code", {}, status.socket)), fact("Configuration", h("code", {}, status.config))),
      h("h3", {}, "Requests"), table("Requests", ["Method", "Answered", "p50 ms", "p95 ms", "p99 ms", "Failed"], requests),
      h("h3", {}, "Log"), h("pre", { class: "log", tabindex: 0, "aria-label": "The end of the log" }, logged.lines.join("\n") || "(nothing was logged yet)"));
  }
}

/** How many requests were answered by an error, with the most frequent codes; most tell a caller that it named something that is not there. @param {any} metrics @returns {string} */
function describeFailed(metrics) {
  /** @type {Map<string, number>} */
  const counts = new Map();
  for (const request of metrics.requests) for (const [code, n] of Object.entries(request.failed_total)) counts.set(code, (counts.get(code) ?? 0) + Number(n));
  const [all, often] = [[...counts.values()].reduce((sum, n) => sum + n, 0), [...counts].sort((one, other) => other[1] - one[1]).slice(0, 3)];
  return all ? `, ${all.toLocaleString()} of them answered by an error (${often.map(([code, n]) => `${code.replace(/_/g, " ")} ${n}`).join(", ")}${counts.size > often.length ? ", …" : ""})` : "";
}

/** @param {string} name @param {any} value */
function fact(name, value) {
  return h("div", {}, h("dt", {}, name), h("dd", {}, value));
}
