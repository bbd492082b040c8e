"""From what somebody typed to what is shown: query, ranking, passages, snippet."""
