"""The tool of MCP whose actions change one memory."""

from memsyncd.operations.operation import TOOL_WORKSPACE, Tool, ToolArgument

UPDATE_TOOL = Tool(
    name="memory_update",
    title="Change a memory",
    description=(
        "Change a memory that another tool has shown. done: finish it; set: values such as status,"
        " priority, importance, kind, add_tags, task, topic, expires, title, or keys of your own,"
        " '' removes one; relate: relation, to; replace: content is the fact that holds now;"
        " forget: take it out."
    ),
    arguments=(
        ToolArgument("action", "The action.", is_required=True),
        ToolArgument(
            "memory", "`path:start-end`, an anchor or a title.", field="anchor", is_required=True
        ),
        ToolArgument("values", "For set: new values by name.", field="metadata"),
        ToolArgument("relation", "Such as resolves, caused_by."),
        ToolArgument("to", "The other memory."),
        ToolArgument("content", "For replace: the new text."),
        ToolArgument("confirm", "For forget: the user has agreed."),
        TOOL_WORKSPACE,
    ),
    prepare="memories.text:spread_update",
    is_destructive=True,
)
