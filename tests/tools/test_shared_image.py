"""The image of the Dockerfile is built once for all workers of a run, and removed by the last one."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.manifests.dockerfile import Image, Stage, shared_image
from tools.patience import PATIENCE


class Builds:
    """Counts builds; each leaves a file in its folder."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, folder: Path) -> Image:
        self.count += 1
        (folder / "file").write_text("built")
        return Image(Stage("base", "final"), folder)


def test_workers_share_one_build_until_the_last_has_left(tmp_path: Path) -> None:
    build, together = Builds(), threading.Barrier(3, timeout=PATIENCE)

    def use() -> Path:
        with shared_image(tmp_path, build) as image:
            together.wait()
            assert (image.root / "file").read_text() == "built"
        return image.root

    with ThreadPoolExecutor(3) as pool:
        [root] = {found.result(PATIENCE) for found in [pool.submit(use) for _ in range(3)]}

    assert build.count == 1
    assert not root.exists()


def test_a_worker_that_leaves_early_leaves_the_image_to_the_others(tmp_path: Path) -> None:
    build = Builds()
    with shared_image(tmp_path, build) as image:
        with shared_image(tmp_path, build) as other:
            assert other == image
        assert (image.root / "file").exists()

    with shared_image(tmp_path, build) as later:
        assert later.root != image.root
    assert build.count == 2
