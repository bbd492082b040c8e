"""Search: queries, ranking, highlighted snippets, contexts for prompts, spelling."""
