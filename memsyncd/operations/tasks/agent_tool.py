"""The tool of MCP whose actions are operations on sessions, tasks and signals."""

from memsyncd.operations.operation import TOOL_WORKSPACE, Tool, ToolArgument

AGENT_TOOL = Tool(
    name="memory_agent",
    title="Sessions and signals",
    description=(
        "Go on where a session ended, and talk to other agents. resume (session or "
        "task): what to know after the context was cleared; checkpoint (content, task or "
        "session): keep progress; inbox (agent, session or task): signals, unread first; "
        "send (content, to whom); ack (signals, agent)."
    ),
    arguments=(
        ToolArgument("action", "The action.", is_required=True),
        ToolArgument("content", "What is done and what is next; or the message."),
        ToolArgument("task", "The task; for send, a task whose agents get it."),
        ToolArgument("session", "The session; for send, one that gets it."),
        ToolArgument("agent", "Your name; for send, the agent that gets it."),
        ToolArgument("signals", "Numbers of signals to acknowledge."),
        TOOL_WORKSPACE,
    ),
    is_always_loaded=False,
)
