"""`raw`: one message as bytes that never change.

Byte layout, all integers big-endian:

    version    u8 = 1
    count      u32       how many texts follow: the subject, then name and value of each kept header, sorted by name
    lengths    u32 each  of those texts in bytes
    texts      UTF-8, one after the other; lone surrogates pass through
    body       the rest, as received

Kept headers are those that carry meaning: `ce-*` and `signature*`, names in lower case. Transport headers
(`Nats-Msg-Id`, `content-type`) are not part of the evidence. A service signs these bytes without the signature itself.
"""

import struct
from dataclasses import replace

from schemas.envelope import Message
from schemas.faults import Broken

VERSION = 1
KEPT_PREFIXES = ("ce-", "signature")
SIGNATURE = "signature"
"""Header: Ed25519 over `signed_bytes`, in hexadecimal."""
SIGNATURE_KEY = "signature-key"
"""Header: the fingerprint of the key that signed. It is among the signed bytes."""
_PREAMBLE = struct.Struct(">BI")


def kept(message: Message) -> Message:
    """`message` as `unframe` will give it back: only the headers that carry meaning."""
    headers = sorted((name.lower(), value) for name, value in message.headers.items())
    return Message(
        message.subject, {name: value for name, value in headers if name.startswith(KEPT_PREFIXES)}, message.body
    )


def frame(message: Message) -> bytes:
    """The bytes that stand for `message` for ever."""
    return frame_kept(kept(message))


def frame_kept(meant: Message) -> bytes:
    """The same, of a message that `kept` gave."""
    encoded = [meant.subject.encode("utf-8", "surrogatepass")]
    for name, value in meant.headers.items():
        encoded += (name.encode("utf-8", "surrogatepass"), value.encode("utf-8", "surrogatepass"))
    lengths = struct.pack(f">{len(encoded)}I", *map(len, encoded))
    return b"".join((_PREAMBLE.pack(VERSION, len(encoded)), lengths, *encoded, meant.body))


def signed_bytes(message: Message) -> bytes:
    """What a signature over `message` is over: its frame without the signature."""
    return signed_bytes_of_kept(kept(message))


def signed_bytes_of_kept(meant: Message) -> bytes:
    """The same, of a message that `kept` or `unframe` gave."""
    return frame_kept(replace(meant, headers={k: v for k, v in meant.headers.items() if k != SIGNATURE}))


def unframe(raw: bytes) -> Message:
    """The message that `frame` was given, without transport headers. Raises Broken when `raw` is not framed."""
    try:
        version, count = _PREAMBLE.unpack_from(raw)
        if version != VERSION:
            raise Broken(f"raw has framing version {version}; this Assay knows {VERSION}")
        lengths = struct.unpack_from(f">{count}I", raw, _PREAMBLE.size)
        subject, *headers = _texts(raw, lengths)
        body_at = _PREAMBLE.size + 4 * count + sum(lengths)
        return Message(subject, dict(zip(headers[::2], headers[1::2], strict=True)), raw[body_at:])
    except (struct.error, ValueError) as error:
        raise Broken(f"raw is not framed as it was written: {error}") from error


def _texts(raw: bytes, lengths: tuple[int, ...]) -> list[str]:
    end, texts = _PREAMBLE.size + 4 * len(lengths), []
    if end + sum(lengths) > len(raw):
        raise ValueError("a length points past the end")
    first = end
    block = raw[first : first + sum(lengths)]
    if block.isascii():  # nearly always: then bytes are characters, and one decoding does for all
        plain, end = block.decode("ascii"), 0
        for length in lengths:
            texts.append(plain[end : end + length])
            end += length
        return texts
    for length in lengths:
        start, end = end, end + length
        texts.append(raw[start:end].decode("utf-8", "surrogatepass"))
    return texts
