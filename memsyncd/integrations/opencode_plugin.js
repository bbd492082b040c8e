// Gives opencode the memory of its folder. Written by `memsyncd integrate opencode`.
//
// It runs `memsyncd hook` before a prompt and adds the answer to the prompt as a hidden part: at the
// start of a session what every session should know, then the notes that concern the prompt. A
// notice on the screen sums it up.

import { spawn } from "node:child_process"

const COMMAND = ["@command"]
const LIMIT_MS = 10_000

const runHook = (event, fields) =>
  new Promise((resolve) => {
    const words = [...COMMAND.slice(1), "hook", event, "--client", "opencode"]
    const hook = spawn(COMMAND[0], words, { stdio: ["pipe", "pipe", "ignore"], timeout: LIMIT_MS })
    let text = ""
    hook.stdout.setEncoding("utf8")
    hook.stdout.on("data", (more) => (text += more))
    hook.stdin.on("error", () => {})
    hook.on("error", () => resolve(""))
    hook.on("close", () => resolve(text.trim()))
    hook.stdin.end(JSON.stringify(fields))
  })

const readAnswer = (answer) => {
  try {
    const { hookSpecificOutput, systemMessage } = JSON.parse(answer)
    return { text: hookSpecificOutput.additionalContext, summary: systemMessage }
  } catch {
    return {}
  }
}

export const Memsyncd = async ({ client, directory }) => {
  // By session: true once the model has its memory, or how the session goes on without it.
  const sessions = new Map()

  const findSource = async (id) => {
    const messages = await client.session.messages({ path: { id } })
    return messages.data?.length ? "resume" : "startup"
  }

  const recall = async (id, prompt) => {
    // An agent of an agent gets no memory, as in other clients.
    if (!sessions.has(id) && (await client.session.get({ path: { id } })).data?.parentID) {
      sessions.set(id, false)
    }
    const state = sessions.get(id)
    if (state === false) return []
    const fields = { session_id: id, cwd: directory, prompt }
    const answers = []
    if (state !== true) {
      fields.source = state ?? (await findSource(id))
      answers.push(readAnswer(await runHook("session-start", fields)))
      sessions.set(id, true)
    }
    answers.push(readAnswer(await runHook("user-prompt", fields)))
    return answers.filter(({ text }) => text)
  }

  const showNotice = async (message) => {
    if (message) await client.tui.showToast({ body: { message, variant: "info" } })
  }

  return {
    event: async ({ event }) => {
      if (event.type !== "session.compacted") return
      const id = event.properties.sessionID
      if (sessions.get(id) === true) sessions.set(id, "compact")
    },
    "chat.message": async ({ sessionID }, { message, parts }) => {
      const typed = parts.filter((part) => part.type === "text" && !part.synthetic)
      const prompt = typed.map((part) => part.text).join("\n")
      const answers = await recall(sessionID, prompt).catch(() => [])
      const last = parts[parts.length - 1]
      for (const [at, { text }] of last ? answers.entries() : []) {
        // opencode orders the parts of a message by their ids.
        const id = `${last.id}${at}`
        parts.push({ id, sessionID, messageID: message.id, type: "text", synthetic: true, text })
      }
      const summaries = answers.map(({ summary }) => summary).filter(Boolean)
      showNotice(summaries.join("\n")).catch(() => {})
    },
    "experimental.session.compacting": async ({ sessionID }, { context }) => {
      const fields = { session_id: sessionID, cwd: directory }
      const text = await runHook("pre-compact", fields).catch(() => "")
      if (text) context.push(text)
    },
  }
}
