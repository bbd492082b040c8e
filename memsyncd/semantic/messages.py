"""Define the messages between the daemon and the vector process, and their frames.

A frame is the length of a message in four bytes and the message as MessagePack. Ids and cosines are
packed arrays, of eight and four bytes each: a search may allow a hundred thousand chunks.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection

import msgspec

from memsyncd.config import SemanticConfig

LENGTH_BYTES = 4
# A hundred million ids; what is longer is no frame.
MAX_FRAME_BYTES = 1 << 30


class StartRequest(msgspec.Struct, frozen=True, kw_only=True, tag="start"):
    """The first message to the process."""

    config: SemanticConfig
    parent_pid: int


class RefreshRequest(msgspec.Struct, frozen=True, kw_only=True, tag="refresh"):
    """Make the vectors that the index needs, and delete those that it does not.

    `is_complete`: the index has all notes, so that what it lacks is gone. `is_asked`: questions
    wait for the model, so it is loaded at once and not at low priority; otherwise it is loaded if
    there is something to embed. `is_again`: make all
    vectors again. `opening` grows whenever the index may be another one: the ids of chunks are
    those of one file.
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
    """Embed a question, for the EmbedRequests with this text."""

    text: str


class EmbedRequest(msgspec.Struct, frozen=True, kw_only=True, tag="question"):
    """Embed a question, for the CosinesRequest with the same number."""

    number: int
    workspace: str
    opening: int
    text: str


class CosinesRequest(msgspec.Struct, frozen=True, kw_only=True, tag="selection"):
    """Answer a question: candidates, allowed (None: all) and how many of the nearest."""

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
    """The vectors of a workspace, while they are made and when that `is_over`.

    `loaded`: the `opening` whose chunks can be compared, with model and vectors in memory.
    `fault` says why some cannot be made or compared, and what to do; `is_useless`: no question can
    be embedded. `notice` says what has happened once; `is_passing`: it holds until all vectors are
    there.
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
