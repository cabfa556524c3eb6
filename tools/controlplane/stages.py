"""What KWOK does in place of kubelets: which change of a node or pod follows which.

A pod that is bound starts at once and runs until it is deleted; a pod of a batch/v1 Job finishes after a second. A test
says otherwise with annotations on the pod, whose values are Go durations such as ``2s`` or ``150ms``:

=====================  ===========================================================================================
annotation             effect
=====================  ===========================================================================================
START_AFTER            it stays Pending (and bound) that long; ``1000h`` is a pod that never starts
RUN_FOR                it is Succeeded after running that long
FAIL_AFTER             it is Failed, exit code 1, after running that long
STOP_AFTER             when deleted it keeps terminating, and holds its room, that long
=====================  ===========================================================================================

A deleted pod whose preStop hook sleeps keeps terminating until its grace period is over. A node that is annotated with
COPY_CAPACITY follows its capacity with its allocatable, extended resources that somebody else wrote included, as a
kubelet does.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

START_AFTER = "volsched.test/start-after"
RUN_FOR = "volsched.test/run-for"
FAIL_AFTER = "volsched.test/fail-after"
STOP_AFTER = "volsched.test/stop-after"
COPY_CAPACITY = "volsched.test/copy-capacity"

JOB_POD_RUNS_FOR_MILLISECONDS = 1000
STOPS_WITHIN_MILLISECONDS = 200
"""What a pod takes to stop. Without it KWOK deletes twice, by name, and the second time may hit the pod's successor."""

_READY = '.status.conditions.[] | select( .type == "Ready" ) | .status'
_PRE_STOP_SLEEP = ".spec.containers.[].lifecycle.preStop.sleep.seconds"
_BATCH_JOB = '.metadata.ownerReferences.[] | select( .apiVersion == "batch/v1" ) | .kind'

_STARTED = """
{{ $now := Now }}
phase: Running
startTime: {{ $now | Quote }}
conditions:
{{ range $type := list "PodReadyToStartContainers" "Initialized" "ContainersReady" "Ready" }}
- {type: {{ $type }}, status: "True", lastTransitionTime: {{ $now | Quote }}}
{{ end }}
{{ range .spec.readinessGates }}
- {type: {{ .conditionType | Quote }}, status: "True", lastTransitionTime: {{ $now | Quote }}}
{{ end }}
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  ready: true
  started: true
  restartCount: 0
  state: {running: {startedAt: {{ $now | Quote }}}}
{{ end }}
initContainerStatuses:
{{ range .spec.initContainers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  ready: true
  restartCount: 0
{{ if eq .restartPolicy "Always" }}
  started: true
  state: {running: {startedAt: {{ $now | Quote }}}}
{{ else }}
  state: {terminated: {exitCode: 0, reason: Completed, startedAt: {{ $now | Quote }}, finishedAt: {{ $now | Quote }}}}
{{ end }}
{{ end }}
{{ with $ips := NodeIPsWith .spec.nodeName }}
hostIP: {{ index $ips 0 | Quote }}
hostIPs: [{ip: {{ index $ips 0 | Quote }}}]
{{ end }}
{{ with $ips := PodIPsWith .spec.nodeName ( or .spec.hostNetwork false ) ( or .metadata.uid "" ) ( or .metadata.name "" ) ( or .metadata.namespace "" ) }}
podIP: {{ index $ips 0 | Quote }}
podIPs: [{ip: {{ index $ips 0 | Quote }}}, {$patch: replace}]
{{ end }}
"""  # noqa: E501 - a template function with five arguments

_ENDED = """
{{ $now := Now }}
phase: PHASE
conditions:
{{ range $type := list "ContainersReady" "Ready" }}
- {type: {{ $type }}, status: "False", reason: CONDITION, lastTransitionTime: {{ $now | Quote }}}
{{ end }}
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  ready: false
  started: false
  restartCount: 0
  state: {terminated: {exitCode: EXIT, reason: REASON, startedAt: {{ $now | Quote }}, finishedAt: {{ $now | Quote }}}}
{{ end }}
"""

_NODE_READY = """
{{ $now := Now }}
phase: Running
conditions:
{{ range NodeConditions }}
- type: {{ .type | Quote }}
  status: {{ .status | Quote }}
  reason: {{ .reason | Quote }}
  message: {{ .message | Quote }}
  lastHeartbeatTime: {{ $now | Quote }}
  lastTransitionTime: {{ $now | Quote }}
{{ end }}
"""

_CAPACITY_AS_ALLOCATABLE = "- {op: replace, path: /allocatable, value: {{ toJson .status.capacity }}}"


def kwok_configuration() -> str:
    """Return KWOK's configuration: its options and the stages, as YAML documents."""
    options = {
        "podPlayStageParallelism": 16,
        "nodePlayStageParallelism": 16,
        "nodeLeaseParallelism": 16,
        "podsOnNodeSyncParallelism": 16,
    }
    documents: list[Mapping[str, Any]] = [
        {"apiVersion": "config.kwok.x-k8s.io/v1alpha1", "kind": "KwokConfiguration", "options": options},
        *_stages(),
    ]
    return "\n---\n".join(json.dumps(document, indent=1) for document in documents)


def _stages() -> list[Mapping[str, Any]]:
    alive, deleted = _unless(".metadata.deletionTimestamp"), _when(".metadata.deletionTimestamp")
    pending, running = _when(".status.phase", "Pending"), _when(".status.phase", "Running")
    runs_for, fails = _annotation(RUN_FOR), _annotation(FAIL_AFTER)
    succeed = {"statusTemplate": _ended("Succeeded", 0, "Completed", "PodCompleted")}
    fail = {"statusTemplate": _ended("Failed", 1, "Error", "PodFailed")}
    copy = {"subresource": "status", "root": "status", "type": "json", "template": _CAPACITY_AS_ALLOCATABLE}
    differs = _when(".status.capacity == .status.allocatable", "false")
    asleep = [deleted, _when(_PRE_STOP_SLEEP), _unless(_annotation(STOP_AFTER))]
    awake = [deleted, _unless(_PRE_STOP_SLEEP)]
    of_job = [alive, running, _when(_BATCH_JOB, "Job"), _unless(runs_for), _unless(fails)]
    return [
        _stage("node-ready", "Node", [_unless(_READY, "True")], {"statusTemplate": _NODE_READY}, None),
        _stage("pod-start", "Pod", [alive, pending], {"statusTemplate": _STARTED}, _delay(START_AFTER)),
        _stage("pod-succeed", "Pod", [alive, running, _when(runs_for)], succeed, _delay(RUN_FOR)),
        _stage("pod-fail", "Pod", [alive, running, _when(fails), _unless(runs_for)], fail, _delay(FAIL_AFTER)),
        _stage("job-pod-succeed", "Pod", of_job, succeed, {"durationMilliseconds": JOB_POD_RUNS_FOR_MILLISECONDS}),
        _stage("node-copy", "Node", [_when(_annotation(COPY_CAPACITY)), differs], {"patches": [copy]}, None),
        _stage("pod-stop", "Pod", awake, {"delete": True}, _delay(STOP_AFTER, STOPS_WITHIN_MILLISECONDS)),
        _stage("pod-stop-after-sleep", "Pod", asleep, {"delete": True}, _until(".metadata.deletionTimestamp")),
    ]


def _stage(
    name: str,
    kind: str,
    conditions: Sequence[Mapping[str, Any]],
    following: Mapping[str, Any],
    delay: Mapping[str, Any] | None,
) -> Mapping[str, Any]:
    spec: dict[str, Any] = {
        "resourceRef": {"apiGroup": "v1", "kind": kind},
        "selector": {"matchExpressions": list(conditions)},
        "next": following,
    }
    if delay:
        spec["delay"] = delay
    return {"apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": "Stage", "metadata": {"name": name}, "spec": spec}


def _when(query: str, *values: str) -> Mapping[str, Any]:
    """Match objects where the query gives one of the values, or anything at all when there are none."""
    return {"key": query, "operator": "In", "values": values} if values else {"key": query, "operator": "Exists"}


def _unless(query: str, *values: str) -> Mapping[str, Any]:
    """Match the objects that `_when` does not."""
    if values:
        return {"key": query, "operator": "NotIn", "values": values}
    return {"key": query, "operator": "DoesNotExist"}


def _annotation(name: str) -> str:
    return f'.metadata.annotations["{name}"]'


def _delay(annotation: str, otherwise: int = 0) -> Mapping[str, Any]:
    return {"durationMilliseconds": otherwise, "durationFrom": {"expressionFrom": _annotation(annotation)}}


def _until(instant: str) -> Mapping[str, Any]:
    """Wait for the time that a field gives (and half a minute when it cannot be read)."""
    return {"durationMilliseconds": 30_000, "durationFrom": {"expressionFrom": instant}}


def _ended(phase: str, status: int, reason: str, condition: str) -> str:
    text = _ENDED.replace("PHASE", phase).replace("CONDITION", condition)
    return text.replace("EXIT", str(status)).replace("REASON", reason)
