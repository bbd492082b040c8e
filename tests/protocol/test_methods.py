from __future__ import annotations

import json
import re

import msgspec
import pytest

from memsyncd import errors
from memsyncd.operations.table import NOTIFICATIONS, OPERATIONS
from memsyncd.protocol.openrpc import describe_methods


@pytest.fixture(scope="module", name="document")
def make_document() -> dict[str, object]:
    return json.loads(msgspec.json.encode(describe_methods("1.2.3")))


def test_every_method_and_notification_is_described(document) -> None:
    assert [method["name"] for method in document["methods"]] == list(OPERATIONS)
    assert [notification["name"] for notification in document["x-notifications"]] == list(
        NOTIFICATIONS
    )
    assert document["info"]["version"] == "1.2.3"


def test_a_methods_parameters_are_those_that_the_parser_takes(document) -> None:
    described = {entry["name"]: entry["params"] for entry in document["methods"]}
    for name, method in OPERATIONS.items():
        fields = msgspec.structs.fields(method.params)
        required = {field.encode_name: field.required for field in fields}
        assert {param["name"]: param["required"] for param in described[name]} == required, name
        order = [param["required"] for param in described[name]]
        assert order == sorted(required.values(), reverse=True), name


def test_every_reference_resolves(document) -> None:
    named = set(re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(document)))
    assert named
    assert named <= set(document["components"]["schemas"])


def test_every_error_is_named_with_its_number(document) -> None:
    classes = [value for value in vars(errors).values() if isinstance(value, type)]
    assert {error.code: error.rpc_code for error in classes} == {
        code: error["code"] for code, error in document["components"]["errors"].items()
    }


def test_the_document_is_made_once() -> None:
    assert describe_methods("1.2.3") is describe_methods("1.2.3")
