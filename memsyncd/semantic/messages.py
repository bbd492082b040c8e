"""Define the messages between the daemon and the vector process, and their frames.

A frame is the length of a message in four bytes, then the message as MessagePack. Ids and cosines
are packed arrays of eight and four bytes each, because a search may allow 100,000 chunks.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection

import msgspec

from memsyncd.config import SemanticConfig

LENGTH_BYTES = 4
# More than a hundred million ids. A longer frame is refused.
MAX_FRAME_BYTES = 1 << 30


class StartRequest(msgspec.Struct, frozen=True, kw_only=True, tag="start"):
    """The first message to the process."""

    config: SemanticConfig
    parent_pid: int


class RefreshRequest(msgspec.Struct, frozen=True, kw_only=True, tag="refresh"):
    """Make the vectors that the index needs, and delete the vectors that it does not need.

    If `is_complete`, the index has all notes, so chunks that it lacks are gone. If `is_asked`,
    questions wait for the model, so it is loaded at once and not at low priority; otherwise it is
    loaded only if there is something to embed. If `is_again`, all vectors are made again. `opening`
    grows whenever the index may be another file, because ids of chunks belong to one file.
    """

    workspace: str
    index_path: str
    vectors_path: str
    is_complete: bool
    is_asked: bool
    is_again: bool = False
    opening: int


class ReleaseRequest(msgspec.Struct, frozen=True, kw_only=True, tag="release"):
    """Forget a workspace."""

    workspace: str


class PrepareRequest(msgspec.Struct, frozen=True, kw_only=True, tag="prepare"):
    """Embed a question, for later EmbedRequests with this text."""

    text: str


class EmbedRequest(msgspec.Struct, frozen=True, kw_only=True, tag="question"):
    """Embed a question. A CosinesRequest with the same number follows."""

    number: int
    workspace: str
    opening: int
    text: str


class CosinesRequest(msgspec.Struct, frozen=True, kw_only=True, tag="selection"):
    """Compare a question with candidates, and with the `nearest` nearest chunks among `allowed`.

    `allowed` is None for all chunks.
    """

    number: int
    candidates: bytes
    allowed: bytes | None
    nearest: int


class NeighboursRequest(msgspec.Struct, frozen=True, kw_only=True, tag="neighbours"):
    """Find the chunks nearest to the mean of `chunks`."""

    number: int
    workspace: str
    opening: int
    chunks: bytes
    allowed: bytes | None
    nearest: int


class PairsRequest(msgspec.Struct, frozen=True, kw_only=True, tag="pairs"):
    """Find the chunks that are nearest to each other."""

    number: int
    workspace: str
    opening: int
    at_least: float
    limit: int
    limit_s: float


Request = (
    StartRequest
    | RefreshRequest
    | ReleaseRequest
    | PrepareRequest
    | EmbedRequest
    | CosinesRequest
    | NeighboursRequest
    | PairsRequest
)


class Report(msgspec.Struct, frozen=True, kw_only=True, tag="report"):
    """The state of a workspace's vectors: while they are made, and at the end (`is_over`).

    `loaded` is the `opening` whose chunks can be compared, with model and vectors in memory.
    `fault` says why some vectors cannot be made or compared, and what to do. If `is_useless`, no
    question can be embedded. `notice` tells a single event; if `is_passing`, it is true until all
    vectors are made.
    """

    workspace: str
    pending: int
    total: int
    embedder: str | None = None
    loaded: int | None = None
    fault: str = ""
    is_useless: bool = False
    notice: str = ""
    is_passing: bool = False
    is_over: bool = False


class CosinesReply(msgspec.Struct, frozen=True, kw_only=True, tag="found"):
    """The answer to a CosinesRequest or a NeighboursRequest. Without ids nothing was compared."""

    number: int
    ids: bytes = b""
    cosines: bytes = b""
    median: float = 0.0
    highest: float = 0.0


class PairsReply(msgspec.Struct, frozen=True, kw_only=True, tag="pairs"):
    number: int
    first: bytes = b""
    second: bytes = b""
    cosines: bytes = b""
    is_found: bool = True


Reply = Report | CosinesReply | PairsReply


def encode_frame(message: Request | Reply) -> bytes:
    data = msgspec.msgpack.encode(message)
    return len(data).to_bytes(LENGTH_BYTES, "big") + data


def pack_ids(ids: Collection[int]) -> bytes:
    return array("q", ids).tobytes()


def unpack_ids(data: bytes) -> array[int]:
    return array("q", data)


def unpack_cosines(data: bytes) -> array[float]:
    return array("f", data)
