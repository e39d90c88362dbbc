"""Bytes by digest: a folder or S3 behind fsspec. A fact carries digest, size and URI, never the bytes."""

import hashlib
import secrets
from typing import Any

import fsspec

from schemas.faults import Misconfigured, Transient
from schemas.work import Artifact


class Missing(Transient):
    """The store does not have these bytes, or has others: rebuild from source and compare the digest."""


class ArtifactStore:
    """Content-addressed bytes under one URI. Writing the same bytes twice is writing them once."""

    def __init__(self, uri: str) -> None:
        self._uri = uri.rstrip("/")
        try:
            self._files, self._root = _opened(self._uri)
            self._files.makedirs(self._root, exist_ok=True)
        except (OSError, ValueError, ImportError) as error:
            raise Misconfigured(f"artifact store {uri}: {error}; set ASSAY_ARTIFACTS_URI") from error

    def put(self, content: bytes) -> Artifact:
        """`content` is stored whole or not at all: written aside, then renamed. Raises Transient on a full disk."""
        sha256 = hashlib.sha256(content).hexdigest()
        artifact = Artifact(sha256=sha256, uri=f"{self._uri}/{_place(sha256)}", size=len(content))
        path = f"{self._root}/{_place(sha256)}"
        try:
            if not self._holds(path, content):
                self._write(path, content)
        except OSError as error:
            raise Transient(f"{artifact.uri}: {error}") from error
        return artifact

    def get(self, artifact: Artifact) -> bytes:
        """The bytes of `artifact`. Raises Missing when they are gone or do not have its digest."""
        try:
            content: bytes = self._files.cat_file(f"{self._root}/{_place(artifact.sha256)}")
        except FileNotFoundError as error:
            raise Missing(f"{artifact.uri} is not in {self._uri}") from error
        except OSError as error:
            raise Transient(f"{artifact.uri}: {error}") from error
        if hashlib.sha256(content).hexdigest() != artifact.sha256:
            raise Missing(f"{artifact.uri} holds other bytes than {artifact.sha256}")
        return content

    def _holds(self, path: str, content: bytes) -> bool:
        return bool(self._files.exists(path)) and self._files.cat_file(path) == content

    def _write(self, path: str, content: bytes) -> None:
        aside = f"{path}.{secrets.token_hex(4)}.new"
        self._files.makedirs(path.rsplit("/", 1)[0], exist_ok=True)
        self._files.pipe_file(aside, content)
        self._files.mv(aside, path)


def _opened(uri: str) -> tuple[Any, str]:
    files, root = fsspec.core.url_to_fs(uri)
    return files, str(root).rstrip("/")


def _place(sha256: str) -> str:
    return f"{sha256[:2]}/{sha256}"
