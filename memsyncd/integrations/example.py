"""Ask Claude one question, with memory, and show what it reads and writes.

    python -m memsyncd.integrations.example "What did we decide about the session store, and why?"

It needs a running daemon, `pip install 'memsyncd[anthropic]'`, and the SDK's environment variables:
ANTHROPIC_API_KEY, and ANTHROPIC_BASE_URL for another server. The answer goes to stdout, and the
tools' calls go to stderr.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from memsyncd.integrations.instructions import INSTRUCTIONS

if TYPE_CHECKING:
    from anthropic import Anthropic

    from memsyncd.integrations.anthropic import MemsyncdMemoryTool

MODEL = "claude-sonnet-5-5"
MAX_TOKENS = 4096
MAX_TURNS = 50


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Ask Claude a question; it uses memsyncd as its memory."
    )
    parser.add_argument("question")
    parser.add_argument(
        "--workspace", help="name, id or a path inside it; by default the only workspace"
    )
    parser.add_argument("--model", default=MODEL)
    args = parser.parse_args()
    try:
        from memsyncd.integrations.anthropic import MemsyncdMemoryTool, with_memory
    except ImportError as error:
        sys.exit(str(error))
    from anthropic import Anthropic

    with with_memory(Anthropic(), args.workspace) as client:
        answer(
            client, args.question, MemsyncdMemoryTool(args.workspace, client="example"), args.model
        )


def answer(client: Anthropic, question: str, memory: MemsyncdMemoryTool, model: str) -> None:
    turns = client.beta.messages.tool_runner(
        model=model,
        max_tokens=MAX_TOKENS,
        max_iterations=MAX_TURNS,
        system=INSTRUCTIONS,
        messages=[{"role": "user", "content": question}],
        tools=[memory],
    )
    for message in turns:
        for block in message.content:
            if block.type == "text":
                print(block.text)
            elif block.type == "tool_use":
                print(f"[{block.name}: {block.input}]", file=sys.stderr)


if __name__ == "__main__":
    main()
