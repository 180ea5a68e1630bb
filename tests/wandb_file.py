"""Reads the rows of an offline W&B run file: a log of length-prefixed protobuf records in 32 kB blocks."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from wandb.proto import wandb_internal_pb2

BLOCK, HEADER, START = 32768, 7, 7
WHOLE, LAST = 1, 4


def records(path: Path) -> Iterator[Any]:
    data = path.read_bytes()
    assert data[:4] == b":W&B"
    position, pieces = START, b""
    while position + HEADER <= len(data):
        if (left := BLOCK - position % BLOCK) < HEADER:  # padding at the end of a block
            position += left
            continue
        _crc, size, kind = struct.unpack_from("<IHB", data, position)
        if not WHOLE <= kind <= LAST:
            return
        pieces += data[position + HEADER : position + HEADER + size]
        position += HEADER + size
        if kind in (WHOLE, LAST):
            record = wandb_internal_pb2.Record()
            record.ParseFromString(pieces)
            pieces = b""
            yield record


def of_kind(path: Path, kind: str) -> list[Any]:
    return [getattr(r, kind) for r in records(path) if r.WhichOneof("record_type") == kind]


def items(message: Any) -> dict[str, Any]:
    return {(i.key or ".".join(i.nested_key)): json.loads(i.value_json) for i in message}
