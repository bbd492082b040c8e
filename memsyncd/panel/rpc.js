// Calls the daemon's methods and receives its events. Each call is a request to /rpc with the panel's
// cookie.

/** An error of the daemon, with a hint on what to do. */
export class RpcError extends Error {
  /** @param {string} message @param {Record<string, any>} data */
  constructor(message, data) {
    super(message);
    this.data = data;
    /** @type {string} */
    this.code = String(data.code ?? "");
    /** @type {string} */
    this.hint = String(data.hint ?? "");
  }
}

let lastId = 0;

/**
 * Call a method and return its result. Throws RpcError, and an AbortError if the signal aborts it.
 * @param {string} method
 * @param {Record<string, unknown>} [params]
 * @param {AbortSignal} [signal]
 * @returns {Promise<any>}
 */
export async function call(method, params = {}, signal) {
  lastId += 1;
  const message = { jsonrpc: "2.0", id: lastId, method, params };
  let response;
  try {
    response = await fetch("/rpc", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(message),
      signal: signal ?? null,
    });
  } catch (error) {
    if (error instanceof DOMException) throw error;
    throw new RpcError("the daemon does not answer", {
      code: "no_daemon",
      hint: "the panel comes back by itself once it runs: memsyncd start",
    });
  }
  if (response.status === 401) {
    throw new RpcError("this page is no longer signed in", {
      code: "unauthorized",
      hint: "open the panel again: memsyncd ui",
    });
  }
  const answer = await response.json();
  if (answer.error) throw new RpcError(answer.error.message, answer.error.data ?? {});
  if (answer.result === undefined) throw new RpcError(String(answer.detail), answer);
  return answer.result;
}

const RETRY_MS = 1500;

/**
 * Receive the events of all workspaces until the page closes, also after restarts of the daemon.
 * @param {{changed(event: any): void, status(event: any): void, online(is: boolean): void}} on
 */
export function listen(on) {
  const stream = new EventSource("/v1/events");
  stream.addEventListener("open", () => on.online(true));
  stream.addEventListener("changed", (event) => on.changed(JSON.parse(event.data)));
  stream.addEventListener("status", (event) => on.status(JSON.parse(event.data)));
  stream.addEventListener("error", () => {
    on.online(false);
    // The browser tries no more after the port has refused a connection once.
    stream.close();
    setTimeout(() => listen(on), RETRY_MS);
  });
}
