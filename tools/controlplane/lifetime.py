"""What is started and stopped, as a context manager: a plain one, and an asynchronous one for tests of asyncio."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Startable(ABC):
    """Something with a beginning and an end. With `async with` both happen on another thread, since they take time."""

    @abstractmethod
    def start(self) -> Self:
        """Begin, and return this."""

    @abstractmethod
    def stop(self) -> None:
        """End."""

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.start)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.stop)
