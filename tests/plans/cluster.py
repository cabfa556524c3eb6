"""The cluster of a scenario: plain manifests, moved as the API server, kubelets and controllers would move them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, TypeAlias

from tests.plans.sessions import Sessions

Manifest: TypeAlias = dict[str, Any]
Happening: TypeAlias = dict[str, Any]

START = datetime(2026, 1, 1, 1, tzinfo=UTC).timestamp()
"""When the first cycle runs, in seconds since the epoch."""
FINALIZER = "resource.kubernetes.io/delete-protection"
UNGATED = "volsched.io/Ungated"
_NATIVE = "scheduling.k8s.io/"


def stamp(at: float) -> str:
    """Return a time as the API server writes it."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def key_of(manifest: Manifest) -> str:
    """Return ``Kind/namespace/name`` of an object, or ``Kind/name``; PodGroups of Kubernetes are ``NativePodGroup``."""
    kind, meta = manifest["kind"], manifest["metadata"]
    if manifest["apiVersion"].startswith(_NATIVE) and kind != "PriorityClass":
        kind = f"Native{kind}"
    return "/".join(part for part in (kind, meta.get("namespace", ""), meta["name"]) if part)


def merged(given: Any, patch: Any) -> Any:
    """Return a value after a JSON merge patch (RFC 7386)."""
    if not isinstance(patch, dict):
        return patch
    found = dict(given) if isinstance(given, dict) else {}
    for key, value in patch.items():
        if value is None:
            found.pop(key, None)
        else:
            found[key] = merged(found.get(key), value)
    return found


def same(given: Manifest) -> Manifest:
    """Return a copy that may be changed."""
    copied: Manifest = json.loads(json.dumps(given))
    return copied


class Cluster:
    """Objects by ``Kind/namespace/name``. The sessions are shown each change."""

    def __init__(self, sessions: Sessions, objects: list[Manifest]) -> None:
        self.objects: dict[str, Manifest] = {}
        self.now = START
        self._sessions = sessions
        self._version = 0
        self._refusals: list[Manifest] = []
        for found in objects:
            self.put(found)

    # -- what happens between cycles ----------------------------------------------------------------------------------

    def happen(self, what: Happening) -> None:
        """Let something happen; what is about an object that is not there does nothing."""
        ((verb, about),) = what.items()
        getattr(self, f"_{verb}")(about)

    def _put(self, given: list[Manifest]) -> None:
        for found in given:
            self.put(found)

    def _patch(self, given: list[Any]) -> None:
        about, patch = given
        if about in self.objects:
            self.put(merged(self.objects[about], patch))

    def _delete(self, about: str) -> None:
        """Delete an object; a pod on a node takes until the next cycle to go."""
        found = self.objects.get(about)
        if found is None:
            return
        if found["kind"] == "Pod" and "nodeName" in found["spec"] and "deletionTimestamp" not in found["metadata"]:
            self._leave(found)
        else:
            self._remove(found)

    def _finish(self, given: list[str]) -> None:
        """Let a pod that runs end with a phase."""
        about, phase = given
        pod = self.objects.get(about)
        if pod is not None and "nodeName" in pod["spec"]:
            self._release_claims(pod)
            self.put({**pod, "status": {**pod["status"], "phase": phase}})

    def _refuse(self, given: Manifest) -> None:
        """Refuse the next write of a kind, ``bind`` or ``evict``, or let a kubelet refuse to ``start`` a pod."""
        self._refusals.append(given)

    def _wait(self, seconds: float) -> None:
        self.now += seconds

    # -- what sessions decided ----------------------------------------------------------------------------------------

    def move(self, decided: Mapping[str, Any]) -> None:
        """Let everything happen that a cycle decided, and let pods go that were leaving before it."""
        leaving = [found for found in self.objects.values() if found["metadata"].get("deletionTimestamp")]
        for bound in decided.get("binds", ()):
            self._bind(bound)
        for evicted in decided.get("evictions", ()):
            self._evict(evicted)
        for what, write in _WRITES.items():
            for about, told in decided.get(what, {}).items():
                write(self, about, told)
        for found in leaving:
            if found["kind"] == "Pod" and key_of(found) in self.objects:
                self._remove(found)
        self.now += 1

    def _refused(self, verb: str) -> Manifest | None:
        found = next((refusal for refusal in self._refusals if refusal["verb"] == verb), None)
        if found is not None:
            self._refusals.remove(found)
        return found

    def _bind(self, bound: Mapping[str, Any]) -> None:
        pod = self.objects[f"Pod/{bound['pod']}"]
        for write in bound.get("claims", ()):
            self._reserve(pod, write)
        for write in bound.get("volumes", ()):
            self._bind_volume(write)
        refusal = self._refused("bind")
        if refusal is not None:
            retry_at = self.now + refusal["retry"] if "retry" in refusal else None
            self._sessions.show_refused_binding(pod, bound["node"], refusal["message"], retry_at)
            return
        self._start(pod, bound)

    def _start(self, pod: Manifest, bound: Mapping[str, Any]) -> None:
        """Let a pod run on its node, unless the kubelet refuses it."""
        status = {"phase": "Running", "startTime": stamp(self.now), "conditions": _conditions_of(pod, "True", "", "")}
        refusal = self._refused("start")
        if refusal is not None:
            status |= {"phase": "Failed", "reason": "OutOfcpu", "message": refusal["message"]}
            self._release_claims(pod)
        meta = pod["metadata"]
        if "annotations" in bound:
            meta = {**meta, "annotations": {**meta.get("annotations", {}), **bound["annotations"]}}
        kept = {"resourceClaimStatuses"} & pod["status"].keys()
        status |= {name: pod["status"][name] for name in kept}
        self.put({**pod, "metadata": meta, "spec": {**pod["spec"], "nodeName": bound["node"]}, "status": status})

    def _evict(self, evicted: Mapping[str, Any]) -> None:
        pod = self.objects[f"Pod/{evicted['pod']}"]
        refusal = self._refused("evict")
        if refusal is not None:
            self._sessions.show_refused_eviction(pod, refusal["message"])
        else:
            self._leave(pod)

    def _leave(self, pod: Manifest) -> None:
        self.put({**pod, "metadata": {**pod["metadata"], "deletionTimestamp": stamp(self.now)}})

    def write_condition(self, about: str, told: Mapping[str, str]) -> None:
        pod = self.objects[f"Pod/{about}"]
        status = {**pod["status"], "conditions": _conditions_of(pod, "False", told["reason"], told["message"])}
        status.pop("nominatedNodeName", None)
        if "nominated" in told:
            status["nominatedNodeName"] = told["nominated"]
        self.put({**pod, "status": status})

    def lift_gate(self, about: str, gate: str) -> None:
        pod = self.objects[f"Pod/{about}"]
        gates = [found for found in pod["spec"].get("schedulingGates", ()) if found["name"] != gate]
        told = {"type": UNGATED, "status": "True", "reason": "QueueAllocated", "message": ""}
        status = {**pod["status"], "conditions": [*pod["status"].get("conditions", ()), told]}
        self.put({**pod, "spec": {**pod["spec"], "schedulingGates": gates}, "status": status})

    def write_group(self, about: str, told: Mapping[str, Any]) -> None:
        group = self.objects.get(f"PodGroup/{about}")
        if group is not None:
            status = {**told, "conditions": [_condition(told) for told in told["conditions"]]}
            self.put({**group, "status": status})

    def write_native_group(self, about: str, told: list[list[str]]) -> None:
        group = self.objects.get(f"NativePodGroup/{about}")
        if group is not None:
            self.put({**group, "status": {"conditions": [_condition(condition) for condition in told]}})

    def release_claim(self, about: str, told: Mapping[str, Any]) -> None:
        claim = self.objects.get(f"ResourceClaim/{about}")
        if claim is not None and told.get("deleted"):
            self._remove(claim)
        elif claim is not None:
            self._set_consumers(claim, [])

    # -- claims and volumes -------------------------------------------------------------------------------------------

    def _reserve(self, pod: Manifest, write: Mapping[str, Any]) -> None:
        namespace, meta = pod["metadata"]["namespace"], pod["metadata"]
        about = f"ResourceClaim/{write['claim']}"
        if "made" in write:
            about = f"ResourceClaim/{namespace}/{write['made']['name']}"
            self.put(_made_claim(pod, write["made"]))
        claim = self.objects[about]
        consumer = {"resource": "pods", "name": meta["name"], "uid": meta["uid"]}
        if "reservedFor" in write:
            resource, name = write["reservedFor"].split("/")
            group = self.objects[f"NativePodGroup/{namespace}/{name}"]["metadata"]
            consumer = {"apiGroup": "scheduling.k8s.io", "resource": resource, "name": name, "uid": group["uid"]}
        status = dict(claim.get("status", {}))
        if "allocation" in write:
            status.setdefault("allocation", write["allocation"])
        consumers = [found for found in status.get("reservedFor", ()) if found["uid"] != consumer["uid"]]
        status["reservedFor"] = [*consumers, consumer]
        status["devices"] = list(_ready_devices(status["allocation"]))
        self.put({**claim, "metadata": {**claim["metadata"], "finalizers": [FINALIZER]}, "status": status})

    def _release_claims(self, pod: Manifest) -> None:
        """Let a pod that is over use no claim any more."""
        uid = pod["metadata"]["uid"]
        for claim in list(self._of("ResourceClaim/")):
            consumers = claim.get("status", {}).get("reservedFor", [])
            left = [found for found in consumers if found["uid"] != uid]
            if len(left) < len(consumers):
                self._set_consumers(claim, left)

    def _set_consumers(self, claim: Manifest, consumers: list[Manifest]) -> None:
        if consumers:
            self.put({**claim, "status": {**claim["status"], "reservedFor": consumers}})
        else:
            meta = {name: value for name, value in claim["metadata"].items() if name != "finalizers"}
            self.put({**claim, "metadata": meta, "status": {}})

    def _bind_volume(self, write: Mapping[str, Any]) -> None:
        claim = self.objects[f"PersistentVolumeClaim/{write['claim']}"]
        if claim["spec"].get("volumeName"):
            return
        if write["kind"] == "static":
            volume = self.objects[f"PersistentVolume/{write['volume']}"]
        else:
            volume = _provisioned(claim, write["node"])
        meta = claim["metadata"]
        reference = {"kind": "PersistentVolumeClaim", **{k: meta[k] for k in ("namespace", "name", "uid")}}
        spec, bound = {**volume["spec"], "claimRef": reference}, {"phase": "Bound"}
        self.put({**volume, "spec": spec, "status": bound})
        spec = {**claim["spec"], "volumeName": volume["metadata"]["name"]}
        self.put({**claim, "spec": spec, "status": bound})

    # -- objects ------------------------------------------------------------------------------------------------------

    def _of(self, start: str) -> Iterator[Manifest]:
        return (found for about, found in self.objects.items() if about.startswith(start))

    def put(self, given: Manifest) -> None:
        """Make or change an object."""
        self._version += 1
        about, meta = key_of(given), given["metadata"]
        meta = {"uid": f"uid-{about}", **meta, "resourceVersion": str(self._version)}
        found = {**given, "metadata": meta}
        if found["kind"] == "Pod" and about not in self.objects:
            found = self._with_claims(found)
        self.objects[about] = found
        self._sessions.show(found)

    def _with_claims(self, pod: Manifest) -> Manifest:
        """Make the claims of a new pod, as Kubernetes' controller does."""
        told = []
        for use in pod["spec"].get("resourceClaims", ()):
            about = f"ResourceClaimTemplate/{pod['metadata']['namespace']}/{use.get('resourceClaimTemplateName', '')}"
            template = self.objects.get(about)
            if template is not None:
                claim = _claim_from(template, pod, use["name"])
                self.put(claim)
                told.append({"name": use["name"], "resourceClaimName": claim["metadata"]["name"]})
        return {**pod, "status": {**pod["status"], "resourceClaimStatuses": told}} if told else pod

    def _remove(self, found: Manifest) -> None:
        """Take an object away, and what belongs to it alone; the controller of a pod makes another one."""
        del self.objects[key_of(found)]
        self._sessions.show_gone(found)
        if found["kind"] == "Pod":
            self._release_claims(found)
        uid = found["metadata"]["uid"]
        for owned in [claim for claim in self._of("ResourceClaim/") if _owner(claim) == uid]:
            self._remove(owned)
        if found["kind"] == "Node":
            for part in list(self._of("ResourceSlice/")):
                if part["spec"].get("nodeName") == found["metadata"]["name"]:
                    self._remove(part)
        if found["kind"] == "Pod" and _owner(found) and found["status"].get("phase") not in ("Succeeded", "Failed"):
            self.put(_next_pod(found, self.now))


_WRITES: Mapping[str, Callable[[Cluster, str, Any], None]] = {
    "lifted": Cluster.lift_gate,
    "released": Cluster.release_claim,
    "conditions": Cluster.write_condition,
    "podGroups": Cluster.write_group,
    "nativePodGroups": Cluster.write_native_group,
}


def _owner(found: Manifest) -> str:
    owners = found["metadata"].get("ownerReferences", [])
    return str(owners[0]["uid"]) if owners else ""


def _owned_by(pod: Manifest) -> list[Manifest]:
    meta = pod["metadata"]
    return [{"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"], "controller": True}]


def _condition(told: list[str]) -> Manifest:
    return dict(zip(("type", "status", "reason", "message"), told, strict=True))


def _conditions_of(pod: Manifest, status: str, reason: str, message: str) -> list[Manifest]:
    others = [found for found in pod["status"].get("conditions", ()) if found["type"] != "PodScheduled"]
    return [*others, _condition(["PodScheduled", status, reason, message])]


def _claim_from(template: Manifest, pod: Manifest, entry: str) -> Manifest:
    meta = {
        "name": f"{pod['metadata']['name']}-{entry}",
        "namespace": pod["metadata"]["namespace"],
        "annotations": {"resource.kubernetes.io/pod-claim-name": entry},
        "ownerReferences": _owned_by(pod),
    }
    spec = template["spec"]["spec"]
    return {"apiVersion": template["apiVersion"], "kind": "ResourceClaim", "metadata": meta, "spec": spec}


def _made_claim(pod: Manifest, made: Mapping[str, Any]) -> Manifest:
    meta = {
        "name": made["name"],
        "namespace": pod["metadata"]["namespace"],
        "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
        "ownerReferences": _owned_by(pod),
    }
    spec = {"devices": {"requests": made["requests"]}}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": meta, "spec": spec}


def _ready_devices(allocation: Mapping[str, Any]) -> Iterator[Manifest]:
    """Yield what drivers report of devices that have binding conditions: all of these are true."""
    for device in allocation["devices"]["results"]:
        if device.get("bindingConditions"):
            named = {key: device[key] for key in ("driver", "pool", "device")}
            yield {**named, "conditions": [{"type": name, "status": "True"} for name in device["bindingConditions"]]}


def _provisioned(claim: Manifest, node: str) -> Manifest:
    """Return the volume that a provisioner makes: it can be reached from one node."""
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    spec = {
        "capacity": claim["spec"]["resources"]["requests"],
        "accessModes": claim["spec"]["accessModes"],
        "storageClassName": claim["spec"]["storageClassName"],
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
    }
    meta = {"name": f"pv-{claim['metadata']['name']}"}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": meta, "spec": spec}


def _next_pod(pod: Manifest, now: float) -> Manifest:
    """Return the pod that a controller makes in the place of one that is gone."""
    left_out = ("uid", "resourceVersion", "deletionTimestamp")
    meta = {name: value for name, value in pod["metadata"].items() if name not in left_out}
    meta |= {"name": f"{meta['name']}x", "creationTimestamp": stamp(now)}
    spec = {name: value for name, value in pod["spec"].items() if name != "nodeName"}
    return {**pod, "metadata": meta, "spec": spec, "status": {"phase": "Pending"}}
