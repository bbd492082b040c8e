"""Change, finish, replace and forget memories."""
