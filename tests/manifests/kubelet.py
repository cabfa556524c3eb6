"""What a kubelet does with a pod of ours, by hand: it makes containers of the manifests and of the image's Dockerfile.

Nothing is said here about our processes. Arguments, user, variables and volumes are those of the pod that is on the API
server, with what admission has put in; the rest is what the image says.
"""

from __future__ import annotations

import base64
import functools
import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from tests.container import Container, Mount, why_not
from tests.manifests.dockerfile import Image
from tests.manifests.pod_network import Address, PodNetwork
from tools.controlplane import ControlPlane

_SERVICE: Final = "/api/v1/namespaces/default/services/kubernetes"
_HOST_IP: Final = "127.0.0.1"
"""The address of the node, which is this machine."""

_TOKEN_MODE: Final = 0o600

Json = dict[str, Any]
Files = dict[str, tuple[bytes, int]]
"""Of each file in a volume its bytes and its mode."""


class Kubelet:
    """Makes containers and networks for pods, below a folder."""

    def __init__(self, cluster: ControlPlane, image: Image, folder: Path) -> None:
        if why_not():
            pytest.skip(f"nothing can be started here as the image starts it: {why_not()}")
        self._cluster, self._image = cluster, image
        self._folder = folder
        self._service = cluster.api.get(_SERVICE)["spec"]

    def network(self) -> PodNetwork:
        """A new network."""
        _, _, port = self._cluster.url.rpartition(":")
        return PodNetwork(self._service_address(), ("127.0.0.1", int(port)))

    def container(self, pod: Json) -> Container:
        """The only container of a pod."""
        [spec] = pod["spec"]["containers"]
        assert spec["securityContext"]["readOnlyRootFilesystem"], "of others nothing is known here"
        own = {entry["name"]: _value(pod, entry) for entry in spec.get("env", ())}
        variables = self._image.stage.environment | {"HOSTNAME": pod["metadata"]["name"]} | self._injected() | own
        command = spec.get("command") or self._image.stage.words("ENTRYPOINT")
        arguments = spec.get("args") or self._image.stage.words("CMD")
        return Container(
            [*command, *(_filled(text, variables) for text in arguments)],
            variables,
            self._user(pod),
            [*self._image.mounts, *self._mounts(pod, spec)],
            hostname=pod["metadata"]["name"],
        )

    def run(self, pod: Json) -> subprocess.CompletedProcess[str]:
        """Run a pod's container to its end."""
        network = self.network()
        try:
            return network.inside(self.container(pod).run, self.root(pod))
        finally:
            network.close()

    def root(self, pod: Json) -> Path:
        """The folder for the root file system of a pod's container."""
        return self._folder / pod["metadata"]["name"] / "root"

    def volume(self, pod: Json, name: str) -> Path:
        """The folder that is one of a pod's volumes."""
        return self._folder / pod["metadata"]["name"] / "volumes" / name

    def _user(self, pod: Json) -> str:
        security = pod["spec"]["securityContext"]
        if "runAsUser" not in security:
            return self._image.stage.user
        return f"{security['runAsUser']}:{security['runAsGroup']}"

    def _service_address(self) -> Address:
        return self._service["clusterIP"], self._service["ports"][0]["port"]

    def _injected(self) -> dict[str, str]:
        """The variables that every container gets of the API server's Service."""
        host, port = self._service_address()
        url = f"tcp://{host}:{port}"
        return {
            "KUBERNETES_SERVICE_HOST": host,
            "KUBERNETES_SERVICE_PORT": str(port),
            "KUBERNETES_SERVICE_PORT_HTTPS": str(port),
            "KUBERNETES_PORT": url,
            f"KUBERNETES_PORT_{port}_TCP": url,
            f"KUBERNETES_PORT_{port}_TCP_PROTO": "tcp",
            f"KUBERNETES_PORT_{port}_TCP_PORT": str(port),
            f"KUBERNETES_PORT_{port}_TCP_ADDR": host,
        }

    # -- volumes --------------------------------------------------------------------------------------------------

    def _mounts(self, pod: Json, spec: Json) -> Iterator[Mount]:
        volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes", ())}
        for mount in spec.get("volumeMounts", ()):
            volume = volumes[mount["name"]]
            writable = "emptyDir" in volume and not mount.get("readOnly")
            yield Mount(self._volume(pod, volume), mount["mountPath"], writable)

    def _volume(self, pod: Json, volume: Json) -> Path:
        folder = self.volume(pod, volume["name"])
        folder.mkdir(parents=True)
        if "emptyDir" in volume:
            folder.chmod(0o777)
            return folder
        security = pod["spec"]["securityContext"]
        for name, (data, mode) in self._files(pod, volume).items():
            path = folder / name
            path.write_bytes(data)
            if "fsGroup" in security:
                os.chown(path, 0, security["fsGroup"])
                path.chmod(mode | 0o040)
            else:
                path.chmod(mode)
                if mode == _TOKEN_MODE:
                    os.chown(path, security["runAsUser"], 0)
        return folder

    def _files(self, pod: Json, volume: Json) -> Files:
        [kind] = volume.keys() - {"name"}
        source = volume[kind]
        if kind == "projected":
            found: Files = {}
            for part in source["sources"]:
                found |= self._source(pod, part, source["defaultMode"])
            return found
        assert kind in {"secret", "configMap"}, f"volume {volume['name']}: nobody plays {kind} here"
        name = source["secretName"] if kind == "secret" else source["name"]
        return self._source(pod, {kind: source | {"name": name}}, source["defaultMode"])

    def _source(self, pod: Json, part: Json, mode: int) -> Files:
        [(kind, source)] = part.items()
        namespace = pod["metadata"]["namespace"]
        if kind == "serviceAccountToken":
            token = self._cluster.token_for(pod["spec"]["serviceAccountName"], namespace)
            return {source["path"]: (token.encode(), _TOKEN_MODE)}
        if kind == "downwardAPI":
            return {item["path"]: (_field(pod, item["fieldRef"]).encode(), mode) for item in source["items"]}
        found = self._cluster.api.find(f"/api/v1/namespaces/{namespace}/{kind.lower()}s/{source['name']}")
        if found is None:
            assert source.get("optional"), f"there is no {kind} {namespace}/{source['name']}, and the pod would wait"
            return {}
        data = _bytes(kind, found.get("data", {}))
        items = source.get("items") or [{"key": key, "path": key} for key in data]
        return {item["path"]: (data[item["key"]], mode) for item in items}


def _bytes(kind: str, data: Mapping[str, str]) -> dict[str, bytes]:
    return {key: base64.b64decode(text) if kind == "secret" else text.encode() for key, text in data.items()}


def _value(pod: Json, entry: Json) -> str:
    return entry["value"] if "value" in entry else _field(pod, entry["valueFrom"]["fieldRef"])


def _field(pod: Json, reference: Json) -> str:
    placed = {**pod, "status": {**pod.get("status", {}), "hostIP": _HOST_IP}}
    return str(functools.reduce(lambda found, key: found[key], reference["fieldPath"].split("."), placed))


def _filled(text: str, variables: Mapping[str, str]) -> str:
    """Put variables in as a kubelet does."""
    return re.sub(r"\$\((\w+)\)", lambda found: variables.get(found[1], found[0]), text)
