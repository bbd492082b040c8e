"""Find secrets and prompt injections in notes, and redact secrets."""
