"""A separate process makes vectors and compares them.

It resumes, heals, and never holds up a question.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from memsyncd.config import SemanticConfig
from memsyncd.semantic import Cosines
from memsyncd.semantic.messages import (
    CosinesReply,
    CosinesRequest,
    EmbedRequest,
    PrepareRequest,
    Reply,
    Report,
)
from memsyncd.semantic.vector_client import UNCHECKED, WorkspaceVectors, find_missing_package
from memsyncd.store.vectors import VectorFile
from tests.semantic.conftest import (
    LIMIT_S,
    EmbeddingServer,
    Notes,
    answer_with,
    embed,
    finish,
    make_config,
    wait_until,
)

np = pytest.importorskip("numpy", reason="the extra `semantic` is not installed")

from memsyncd.semantic import vector_worker  # noqa: E402
from memsyncd.semantic.vector_matrix import Compared, Matrix, Vectors  # noqa: E402

pytestmark = pytest.mark.life

TEXTS = {
    "garage": "# Garage\n\nthe vehicle is red",
    "kennel": "# Kennel\n\nthe hound sleeps",
    "oven": "# Oven\n\na loaf for tomorrow",
}


@pytest.fixture
def vectors(notes: Notes, endpoint: SemanticConfig) -> WorkspaceVectors:
    """The vectors of TEXTS, all complete."""
    notes.put(**TEXTS)
    vectors = notes.serve(endpoint)
    assert notes.refresh().pending == 0
    return vectors


def count_rows(path: Path) -> int:
    file = VectorFile(path)
    try:
        return len(file.read_digests())
    finally:
        file.close()


def ask_once(vectors: WorkspaceVectors, question: str) -> Cosines | None:
    return finish(vectors.begin(question), time.monotonic() + LIMIT_S)


def test_the_nearest_note_shares_no_word_with_the_question(
    notes: Notes, endpoint: SemanticConfig
) -> None:
    notes.put(**TEXTS)
    vectors = notes.serve(endpoint)
    assert vectors.status().state == "partial"
    report = notes.refresh()
    assert (report.pending, report.total, report.fault) == (0, 3, "")
    cosines = notes.ask(vectors, "where is my automobile")
    assert max(cosines, key=cosines.__getitem__) == "garage"
    assert cosines["garage"] > 0.9
    assert cosines["kennel"] < 0.3
    assert vectors.status().state == "ready"


def test_only_allowed_chunks_are_compared_and_candidates_are_among_the_answer(
    notes: Notes, vectors: WorkspaceVectors
) -> None:
    of_note = {name: chunk for chunk, name in notes.chunks().items()}
    allowed = {of_note["kennel"], of_note["oven"], 999}
    assert notes.ask(vectors, "automobile", allowed=allowed).keys() == {"kennel", "oven"}
    candidates = [of_note["oven"], of_note["garage"], 999]
    assert notes.ask(vectors, "automobile", candidates=candidates, nearest=0).keys() == {
        "oven",
        "garage",
    }
    cosines = notes.ask(vectors, "automobile", candidates=candidates, nearest=0, allowed=allowed)
    assert cosines.keys() == {"oven"}


def test_chunks_are_compared_with_the_mean_of_others_and_with_each_other(
    notes: Notes, endpoint: SemanticConfig
) -> None:
    notes.put(**TEXTS, street="# Street\n\nan automobile drives by")
    vectors = notes.serve(endpoint)
    notes.refresh()
    names = notes.chunks()
    of_note = {name: chunk for chunk, name in names.items()}
    notes.ask(vectors, "automobile")  # from now on they are in memory
    near = vectors.of_chunks([of_note["garage"]], None, 1)
    assert near is not None
    assert [names[chunk] for chunk in near.of] == ["street"]
    pairs = vectors.pairs(0.9, 10)
    assert pairs is not None
    assert [{names[first], names[second]} for first, second, _ in pairs] == [{"garage", "street"}]


def test_a_changed_note_is_embedded_alone_and_what_it_said_is_deleted(
    notes: Notes, server: EmbeddingServer, vectors: WorkspaceVectors
) -> None:
    notes.ask(vectors, "automobile")
    server.texts.clear()
    notes.put(kennel="# Kennel\n\na car, a car")
    notes.drop("oven")
    assert notes.refresh().total == 2
    assert len(server.texts) == 1
    assert count_rows(notes.vectors_path) == 2
    assert notes.ask(vectors, "bakery").keys() == {"garage", "kennel"}
    assert notes.ask(vectors, "automobile")["kennel"] > 0.9


def test_while_an_index_is_filled_no_vector_is_deleted(
    notes: Notes, endpoint: SemanticConfig
) -> None:
    notes.put(**TEXTS)
    notes.serve(endpoint)
    notes.refresh()
    notes.drop("oven")
    notes.is_complete = False
    notes.refresh()
    assert count_rows(notes.vectors_path) == 3


def test_a_rebuilt_index_embeds_nothing_twice_and_gets_no_answers_of_the_old_one(
    notes: Notes, server: EmbeddingServer, vectors: WorkspaceVectors
) -> None:
    notes.ask(vectors, "automobile")
    server.texts.clear()
    notes.rebuild(**TEXTS)
    begun = vectors.begin("automobile")
    assert finish(begun, time.monotonic() + 20) is None
    notes.refresh()
    assert not [text for text in server.texts if "Filler" not in text and text != "automobile"]
    cosines = notes.ask(vectors, "automobile")
    assert max(cosines, key=cosines.__getitem__) == "garage"


def test_a_question_that_was_begun_before_a_rebuild_gets_no_answer_of_the_old_index(
    notes: Notes, vectors: WorkspaceVectors
) -> None:
    notes.ask(vectors, "automobile")
    begun = vectors.begin("automobile")
    notes.rebuild(**TEXTS)
    assert finish(begun, time.monotonic() + 20) is None
    assert begun.reason == UNCHECKED


def test_after_a_kill_the_process_makes_the_missing_vectors(
    notes: Notes, server: EmbeddingServer, endpoint: SemanticConfig
) -> None:
    notes.put(**{f"n{number}": f"# Car {number}\n\ncar" for number in range(200)})
    notes.serve(endpoint)
    server.delay_s = 0.05
    notes.service.refresh("w")
    wait_until(lambda: len(server.texts) >= 64, "nothing is embedded")
    (pid,) = notes.service.pids
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: any(report.is_over for report in notes.reports), "it is not over")
    assert notes.reports[-1].pending == 0
    assert sum("was killed by signal 9" in report.notice for report in notes.reports) == 1
    assert count_rows(notes.vectors_path) == 200
    assert 200 <= len(server.texts) <= 264  # a batch that was embedded but not committed


def test_a_process_that_keeps_dying_is_left_alone_and_words_answer(
    notes: Notes, server: EmbeddingServer, endpoint: SemanticConfig
) -> None:
    notes.put(**TEXTS)
    vectors = notes.serve(endpoint)
    server.answer = server.hang
    notes.service.refresh("w")
    killed: set[int] = set()

    def kill_another() -> bool:
        fresh = set(notes.service.pids) - killed
        for pid in fresh:
            os.kill(pid, signal.SIGKILL)
        killed.update(fresh)
        return bool(fresh)

    for _ in range(3):
        wait_until(kill_another, "it was not started")
    wait_until(lambda: vectors.status().state == "off", "it is not said")
    assert "was killed by signal 9" in str(vectors.status().reason)
    assert ask_once(vectors, "car") is None
    assert not notes.service.pids


def test_a_library_that_is_gone_is_named_and_tried_again_once_it_is_back(
    notes: Notes, vectors: WorkspaceVectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    (pid,) = notes.service.pids
    with monkeypatch.context() as gone:
        gone.setattr(importlib.util, "find_spec", lambda name: None)
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: vectors.status().state == "off", "it is not said")
        assert "pip install 'memsyncd[semantic]'" in str(vectors.status().reason)
        wait_until(lambda: not notes.service.pids, "a process is left")
    notes.service.retry()
    notes.refresh_until_complete()
    assert notes.ask(vectors, "automobile")


def test_a_stopped_process_delays_no_question_beyond_its_deadline(
    notes: Notes, vectors: WorkspaceVectors
) -> None:
    notes.ask(vectors, "car")
    (pid,) = notes.service.pids
    os.kill(pid, signal.SIGSTOP)
    try:
        for _ in range(3):
            assert finish(vectors.begin("car"), time.monotonic() + 0.1) is None
    finally:
        os.kill(pid, signal.SIGCONT)
    assert notes.ask(vectors, "car")


@pytest.mark.parametrize(
    "damage", [b"this is no database" * 100, b"SQLite format 3\0" + b"x" * 4080]
)
def test_a_damaged_file_is_set_aside_and_made_again(
    notes: Notes, server: EmbeddingServer, vectors: WorkspaceVectors, damage: bytes
) -> None:
    notes.vectors_path.write_bytes(damage)
    server.texts.clear()
    report = notes.refresh()
    assert (report.pending, report.fault) == (0, "")
    assert "set aside" in report.notice
    assert len(server.texts) == 3
    assert notes.vectors_path.with_name("vectors.db.damaged").read_bytes() == damage
    assert notes.ask(vectors, "car")
    assert not notes.refresh().notice


def answer_nothing(texts: list[str]) -> bytes:
    return b""


def answer_other_dimensions(texts: list[str]) -> bytes:
    return answer_with([[*embed(text), 1.0] for text in texts])


FAULTS: dict[str, tuple[Callable[[list[str]], bytes], str]] = {
    "status 500": (answer_nothing, "status 500"),
    "no JSON": (lambda texts: b"<html>", "no list of embeddings"),
    "another form": (lambda texts: b'{"data": {"a": 1}}', "no list of embeddings"),
    "too few": (lambda texts: answer_with([]), "0 embeddings of"),
    "too deep": (lambda texts: b"[" * 100_000, "no list of embeddings"),
    "too large": (lambda texts: answer_with([[10.0**300] * 5] * len(texts)), "not finite"),
    "beyond floats": (
        lambda texts: b'{"data": [{"embedding": [1%s]}]}' % (b"0" * 400),
        "no list of embeddings",
    ),
    "not finite": (lambda texts: answer_with([[float("nan")] * 5] * len(texts)), "not finite"),
    "other dimensions": (answer_other_dimensions, "semantic warm --again"),
}


def test_an_endpoint_that_answers_with_something_else_is_reported_and_words_answer(
    notes: Notes, server: EmbeddingServer, vectors: WorkspaceVectors
) -> None:
    notes.ask(vectors, "car")
    for name, (answer, reason) in FAULTS.items():
        server.answer = answer
        begun = vectors.begin(f"a question with {name}")
        assert finish(begun, time.monotonic() + 20) is None, name
        assert reason in begun.reason
        wait_until(lambda: vectors.status().state == "off", f"it is not said: {name}")
        assert reason in str(vectors.status().reason)
        assert vectors.status().failed
        n_before = len(server.texts)
        assert ask_once(vectors, "car") is None, name
        assert len(server.texts) == n_before, "it is not left alone"
        assert count_rows(notes.vectors_path) == 3
        assert notes.refresh().fault, name  # although no chunk is missing
        server.answer = server.answer_well
        # The report of the question may come after its state, and be taken for the report of a refresh.
        wait_until(lambda: not notes.refresh().fault, f"it is not tried again: {name}")
        assert notes.ask(vectors, "automobile")
        assert vectors.status().state == "ready"


def test_an_endpoint_that_hangs_costs_a_question_its_time_limit_and_is_reported(
    notes: Notes, server: EmbeddingServer, vectors: WorkspaceVectors
) -> None:
    notes.service.configure(make_config(server, question_ms=300))
    server.answer = server.hang
    notes.refresh()
    took_s: list[float] = []

    def is_reported() -> bool:
        began_s = time.monotonic()
        assert finish(vectors.begin("automobile"), began_s + 20) is None
        took_s.append(time.monotonic() - began_s)
        return vectors.status().state == "off"

    wait_until(is_reported, "it is not said")
    assert max(took_s) < 15
    assert "did not answer within 0.3 s" in str(vectors.status().reason)


def test_an_endpoint_that_is_down_when_notes_are_embedded_loses_nothing(
    notes: Notes, server: EmbeddingServer, endpoint: SemanticConfig, vectors: WorkspaceVectors
) -> None:
    notes.service.configure(make_config(server, request_s=0.5))
    server.answer = server.hang
    notes.put(street="# Street\n\ncars")
    report = notes.refresh()
    assert "did not answer within 0.5 s" in report.fault
    assert (report.pending, report.total) == (1, 4)
    server.answer = server.answer_well
    notes.service.configure(endpoint)
    notes.refresh_until_complete()
    wait_until(lambda: vectors.status().state == "ready", "it is not ready")


def test_all_vectors_are_made_again_when_that_is_asked_for(
    notes: Notes, server: EmbeddingServer, vectors: WorkspaceVectors
) -> None:
    server.answer = answer_other_dimensions
    server.texts.clear()
    assert notes.refresh(is_again=True).pending == 0
    assert len(server.texts) == 3
    assert notes.ask(vectors, "automobile").keys() == TEXTS.keys()


def test_a_question_that_was_just_asked_is_embedded_by_the_model_that_the_vectors_are_of(
    notes: Notes, server: EmbeddingServer, vectors: WorkspaceVectors
) -> None:
    notes.ask(vectors, "automobile")
    server.answer = answer_other_dimensions
    notes.refresh(is_again=True)
    assert ask_once(vectors, "automobile") is not None
    assert vectors.status().state == "ready"


def test_a_new_attempt_does_not_begin_with_the_fault_of_the_last_one(
    notes: Notes, server: EmbeddingServer, endpoint: SemanticConfig
) -> None:
    notes.put(**TEXTS)
    vectors = notes.serve(endpoint)
    server.answer = answer_nothing
    assert notes.refresh().fault
    server.answer = server.hang
    notes.service.retry()
    notes.reports.clear()
    notes.service.refresh("w", is_asked=True)
    wait_until(lambda: notes.reports, "it is not tried again")
    state = vectors.status()
    assert (state.state, state.failed) == ("partial", False)


def test_another_model_makes_all_vectors_again_and_the_old_ones_stay_until_it_can(
    notes: Notes, server: EmbeddingServer, vectors: WorkspaceVectors
) -> None:
    server.texts.clear()
    server.answer = answer_nothing
    assert notes.service.configure(make_config(server, model="other"))
    report = notes.refresh()
    assert (report.pending, report.total) == (3, 3)
    assert count_rows(notes.vectors_path) == 3
    server.answer = answer_other_dimensions
    notes.refresh_until_complete()
    assert notes.ask(vectors, "automobile").keys() == TEXTS.keys()


def test_an_idle_process_ends_and_the_next_question_starts_it_again(
    notes: Notes, server: EmbeddingServer
) -> None:
    notes.put(**TEXTS)
    vectors = notes.serve(make_config(server, idle_s=0.3))
    notes.refresh()
    wait_until(lambda: not notes.service.pids, "it does not end")
    wait_until(lambda: not vectors.status().loaded, "it is not said")
    assert vectors.status().state == "ready"
    assert "the next question loads it" in str(vectors.status().reason)
    assert ask_once(vectors, "car") is None
    assert notes.ask(vectors, "automobile")
    assert not [report for report in notes.reports if report.fault or report.notice]


def test_a_model_is_loaded_for_new_chunks_and_for_questions_and_not_at_a_start(
    notes: Notes, endpoint: SemanticConfig, vectors: WorkspaceVectors
) -> None:
    assert vectors.status().loaded
    assert ask_once(vectors, "car") is not None
    notes.service.stop()
    vectors = notes.serve(endpoint)
    notes.refresh()  # finds all vectors made
    status = vectors.status()
    assert (status.state, status.loaded) == ("ready", False)
    assert "the next question loads it" in str(status.reason)
    first = vectors.begin("car")
    assert finish(first, time.monotonic() + 20) is None
    assert "the model is being loaded" in first.reason
    wait_until(lambda: vectors.status().loaded, "it is not loaded")
    assert ask_once(vectors, "car") is not None
    notes.service.stop()
    vectors = notes.serve(endpoint)
    notes.refresh(is_asked=True)
    assert vectors.status().loaded


def test_a_question_that_was_just_asked_is_not_embedded_again(
    notes: Notes, server: EmbeddingServer, vectors: WorkspaceVectors
) -> None:
    first = notes.ask(vectors, "automobile")
    server.texts.clear()
    assert notes.ask(vectors, "automobile") == first
    assert server.texts == []
    for number in range(20):
        notes.ask(vectors, f"car {number}")
    notes.ask(vectors, "automobile")
    assert server.texts[-1] == "automobile"


def test_a_repeated_question_finds_notes_that_were_embedded_since(
    notes: Notes, vectors: WorkspaceVectors
) -> None:
    first = notes.ask(vectors, "automobile")
    assert notes.ask(vectors, "automobile") == first
    notes.put(lane="# Lane\n\nthe vehicle, the vehicle")
    notes.refresh()
    assert {*notes.ask(vectors, "automobile")} == {*TEXTS, "lane"}
    notes.drop("garage")
    notes.refresh()
    assert {*notes.ask(vectors, "automobile")} == {*TEXTS, "lane"} - {"garage"}


def test_a_question_that_comes_twice_is_compared_once(
    notes: Notes, endpoint: SemanticConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[Vectors] = []
    compare = Matrix.compare

    def note_comparison(matrix: Matrix, vector: Vectors) -> Compared:
        compared.append(vector)
        return compare(matrix, vector)

    monkeypatch.setattr(Matrix, "compare", note_comparison)
    notes.put(**TEXTS)
    sent: list[Reply] = []
    worker = vector_worker.VectorWorker(endpoint, sent.append)
    worker.accept(notes.serve(endpoint).make_refresh())
    wait_until(
        lambda: any(isinstance(message, Report) and message.is_over for message in sent), "it waits"
    )
    for number, text in enumerate(("automobile", "automobile", "hound")):
        opening = notes.index.opening
        worker.accept(EmbedRequest(number=number, workspace="w", opening=opening, text=text))
        worker.accept(CosinesRequest(number=number, candidates=b"", allowed=None, nearest=5))
    assert len(compared) == 2
    answers = [message.cosines for message in sent if isinstance(message, CosinesReply)]
    assert len(answers) == 3
    assert answers[0] == answers[1] != answers[2]


def test_a_prepared_question_is_embedded_once_and_its_failure_waited_for_once(
    notes: Notes, server: EmbeddingServer, endpoint: SemanticConfig
) -> None:
    notes.put(**TEXTS)
    vectors = notes.serve(endpoint)
    vectors.prepare("automobile")  # nothing is there yet
    notes.refresh()
    notes.ask(vectors, "car")
    server.texts.clear()
    vectors.prepare("automobile")
    wait_until(lambda: server.texts == ["automobile"], "it is not embedded")
    assert notes.ask(vectors, "automobile")
    assert server.texts == ["automobile"]
    server.answer = answer_nothing
    vectors.prepare("a question")
    assert ask_once(vectors, "a question") is None
    wait_until(lambda: vectors.status().failed, "it is not reported")
    assert server.texts == ["automobile", "a question"]


def test_no_text_is_embedded_while_a_question_is_answered(
    notes: Notes,
    server: EmbeddingServer,
    endpoint: SemanticConfig,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(vector_worker, "GIVE_WAY_S", LIMIT_S)
    notes.put(**TEXTS)
    sent: list[Reply] = []
    worker = vector_worker.VectorWorker(endpoint, sent.append)
    refresh = notes.serve(endpoint).make_refresh()
    worker.accept(PrepareRequest(text="automobile"))
    worker.accept(refresh)
    wait_until(lambda: any(isinstance(message, Report) for message in sent), "nothing is read")
    time.sleep(0.2)  # meanwhile it would embed the texts
    assert server.texts == ["automobile"]
    worker.accept(CosinesRequest(number=1, candidates=b"", allowed=None, nearest=5))
    wait_until(
        lambda: any(isinstance(message, Report) and message.is_over for message in sent), "it waits"
    )
    assert len(server.texts) == 1 + len(TEXTS)


def test_questions_that_are_never_finished_do_not_stop_the_embedding(
    notes: Notes, server: EmbeddingServer, vectors: WorkspaceVectors
) -> None:
    notes.ask(vectors, "car")
    vectors.prepare("automobile")
    vectors.begin("a hound")
    notes.put(**{f"note{number}": f"# N\n\nnumber {number}" for number in range(70)})
    report = notes.refresh()
    assert (report.pending, report.total) == (0, len(notes.chunks()))


def test_a_process_that_is_killed_while_a_question_waits_ends_the_waiting(
    notes: Notes, vectors: WorkspaceVectors
) -> None:
    first = notes.ask(vectors, "car")
    (pid,) = notes.service.pids
    os.kill(pid, signal.SIGSTOP)
    pending = vectors.begin("car")
    pending.select((), None, 9)
    began_s = time.monotonic()
    os.kill(pid, signal.SIGKILL)
    assert pending.finish(began_s + 600) is None
    # `question_ms` is 20 seconds: it was woken, not late.
    assert "has just ended" in pending.reason
    assert notes.ask(vectors, "car") == first
    assert sum("was killed by signal 9" in report.notice for report in notes.reports) == 1
    assert not vectors.status().failed


def test_requests_during_the_start_of_the_process_are_carried_out(
    notes: Notes, endpoint: SemanticConfig
) -> None:
    notes.put(**TEXTS)
    notes.serve(endpoint)
    other = notes.service.add("other", notes.index_path, notes.read_state)
    notes.service.refresh("w")
    notes.service.refresh("other")  # the process has just been started, if at all
    wait_until(lambda: other.status().state == "ready", "it is not done")


def test_secrets_are_not_embedded(
    notes: Notes, server: EmbeddingServer, endpoint: SemanticConfig
) -> None:
    key = "\n".join(["-----BEGIN RSA PRIVATE KEY-----", "MIIEpAIBAAKCAQEA7bq" * 3, "q2F0" * 16])
    notes.put(
        access=f"# Access\n\npassword: hunter2hunter2\n\n{key}\n-----END RSA PRIVATE KEY-----\n"
    )
    notes.serve(endpoint)
    assert notes.refresh().pending == 0
    assert server.texts
    assert not [text for text in server.texts if "hunter2" in text or "q2F0" in text]


def test_switched_off_it_starts_nothing_and_deletes_the_vectors(
    notes: Notes, vectors: WorkspaceVectors
) -> None:
    assert notes.vectors_path.exists()
    notes.service.configure(SemanticConfig())
    wait_until(lambda: not notes.vectors_path.exists(), "the vectors are there")
    assert ask_once(vectors, "car") is None
    assert vectors.status().state == "off"
    wait_until(lambda: not notes.service.pids, "a process is left")


def test_an_absent_library_is_named_with_what_to_do() -> None:
    for embedder, module in (("fastembed", "fastembed"), ("model2vec", "model2vec")):
        config = SemanticConfig(enabled=True, embedder=embedder, model="m")  # type: ignore[arg-type]
        reason = find_missing_package(config)
        try:
            __import__(module)
        except ImportError:
            assert f"pip install 'memsyncd[{module}]'" in reason
        else:
            assert not reason
