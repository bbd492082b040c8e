"""One folder for each capability: `declare` names its operations, `run` carries them out, `show`
prints their answers, `text` renders them for a model.

Beside the folders there are

- the types of declarations: `operation`, `fields`, `sections`; `table` lists all operations;
- the interfaces that `run` works with: `call`, and `daemon` for operations about all workspaces;
- code that several `run` share: `workspace_info`, `plans`, `inbox`;
- `generate`, which writes plain Python from the declarations, with `generate_cli`,
  `generate_client` and `docs`.
"""
