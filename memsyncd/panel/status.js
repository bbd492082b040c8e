// The state of the daemon and its workspaces, its counters, and the end of its log.

import { bytes, count, fill, h, table, when } from "./dom.js";
import { call } from "./rpc.js";
import { makeHref, report, View } from "./view.js";

export class StatusView extends View {
  constructor() {
    super();
    this.isPolled = true;
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
      report(`synced in ${done.duration_ms.toFixed(0)} ms: ${changed ? `${count(changed, "note")} had changed` : "nothing had changed"}${done.failed.length ? `, ${count(done.failed.length, "note")} could not be read: see Problems` : ""}`);
      await this.reload();
    } catch (error) {
      report(error);
    }
  }

  /** @param {AbortSignal} signal */
  async read(signal) {
    const [status, metrics, logged, semantic] = await Promise.all([
      call("status", {}, signal), call("metrics", {}, signal), call("log.tail", {}, signal), call("semantic.status", {}, signal)]);
    // If the table were replaced while its text is selected, the text could not be copied.
    if (this.hasSelection()) return;
    const vectors = semantic.workspaces.map((/** @type {any} */ one) => [one.name, one.semantic.state, one.semantic.total.toLocaleString(), one.semantic.pending.toLocaleString(),
      one.semantic.embedder ?? "", one.semantic.reason ?? ""]);
    const workspaces = status.workspaces.map((/** @type {any} */ one) => [[h("a", { class: "entry", href: makeHref("notes", one.id) }, one.name), h("div", { class: "quiet" }, h("code", {}, one.root))],
      h("span", { class: `state ${one.state}` }, one.state), one.files.toLocaleString(), one.sections.toLocaleString(), one.pending, h("a", { href: makeHref("problems", one.id), "aria-label": `${count(one.problems, "problem")} of ${one.name}` }, one.problems),
      one.watcher, bytes(one.index_bytes), [one.last_sync_at ? when(one.last_sync_at) : "never", " ", h("button", { type: "button", "aria-label": `Sync ${one.name} now`, onclick: () => this.sync(one.id) }, "sync")], one.reasons.join("; ")]);
    const requests = metrics.requests.map((/** @type {any} */ one) => [one.method, one.answered.total, one.answered.p50_ms.toFixed(1), one.answered.p95_ms.toFixed(1), one.answered.p99_ms.toFixed(1),
      Object.entries(one.failed_total).map(([code, n]) => `${code} ${n}`).join(", ")]);
    fill(this, h("h2", {}, "Daemon"), h("p", {}, `memsyncd ${status.version}, pid ${status.pid}, started `, when(Date.now() / 1000 - status.uptime_s), ` · ${bytes(status.rss_bytes)} of memory · ${count(status.clients, "client")} · ${count(status.requests, "request")}, ${status.failed_requests} failed · SQLite ${status.sqlite}`),
      h("p", { class: "quiet" }, h("code", {}, status.socket), " · configuration ", h("code", {}, status.config), status.socket_problem && h("strong", {}, ` · ${status.socket_problem}`)),
      h("h2", {}, "Workspaces"), h("p", { class: "tools" }, h("a", { class: "chip", href: makeHref("start", this.place.workspace) }, "Watch another folder…")), table("Workspaces", ["Name", "State", "Notes", "Sections", "Pending", "Problems", "Watcher", "Index", "Last sync", "Reasons"], workspaces),
      h("h2", {}, "Semantic search"), semantic.enabled
        ? [semantic.process && h("p", { class: "quiet" }, `process ${semantic.process.pid}, ${bytes(semantic.process.rss_bytes)} of memory`),
          table("Semantic search", ["Workspace", "State", "Chunks", "Without vector", "Model", "Reason"], vectors)]
        : h("p", { class: "quiet" }, `off: ${semantic.workspaces[0]?.semantic.reason ?? "no workspace"}`),
      h("h2", {}, "Requests"), table("Requests", ["Method", "Answered", "p50 ms", "p95 ms", "p99 ms", "Failed"], requests),
      h("h2", {}, "Log"), h("pre", { class: "log", tabindex: 0, "aria-label": "The end of the log" }, logged.lines.join("\n") || "(nothing was logged yet)"));
  }
}
