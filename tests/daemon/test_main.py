from __future__ import annotations

from memsyncd.config import Config, GuardConfig, HistoryConfig, KindConfig
from memsyncd.core.editing.kinds import DEFAULT_KINDS, OTHER_KINDS, KindDefaults
from memsyncd.core.guard.warnings import GuardPolicy
from memsyncd.daemon.main import to_limits, to_search_policy, to_sync_policy
from memsyncd.engine.policies import HistoryPolicy, RememberPolicy, SyncPolicy
from memsyncd.server.requests import Limits


def test_without_a_configuration_all_policies_have_their_defaults() -> None:
    assert to_sync_policy(Config()) == SyncPolicy()
    assert to_limits(Config()) == Limits()


def test_the_history_policy_is_that_of_the_configuration() -> None:
    config = Config(history=HistoryConfig(enabled=False, max_revisions=7, max_age_days=0.5))
    assert to_sync_policy(config).history == HistoryPolicy(
        is_enabled=False, max_revisions=7, max_age_s=43_200.0
    )


def test_a_configured_kind_replaces_the_default_of_its_name_or_is_added() -> None:
    kinds = (
        KindConfig(name="decision", note="docs/adr.md", importance=0.8),
        KindConfig(name="recipe", note=".memories/recipes.md", importance=0.2),
    )
    remember = to_sync_policy(Config(kind=kinds)).kinds
    assert remember.kinds == {
        **DEFAULT_KINDS,
        "decision": KindDefaults("docs/adr.md", 0.8),
        "recipe": KindDefaults(".memories/recipes.md", 0.2),
    }
    assert remember.find_note("Recipe") == ".memories/recipes.md"
    assert to_search_policy(Config(kind=kinds)).leanings.kinds["recipe"] == 0.2


def test_an_unknown_kind_is_remembered_where_no_kind_is() -> None:
    policy = RememberPolicy()
    for kind in ("rumour", None):
        assert policy.find_note(kind) == OTHER_KINDS.note


def test_the_guard_policy_is_that_of_the_configuration() -> None:
    config = Config(guard=GuardConfig(secrets="flag", instructions="off"))
    assert to_sync_policy(config).guard == GuardPolicy(has_secrets=True, has_instructions=False)
    assert not to_search_policy(config).is_masking
    assert to_sync_policy(Config(guard=GuardConfig(secrets="off"))).guard == GuardPolicy(
        has_secrets=False
    )
    assert to_search_policy(Config()).is_masking
