"""Task templates: the common part of pods that are placed alike, kept once.

Feasibility and scores belong to a template, not to a pod. Two pods share one if everything that decides where they may
go is equal; names, uids and labels do not matter, except where a rule of the pod itself reads them:

* its namespace, if it has affinity or spread terms or names PersistentVolumeClaims;
* those of its labels that its own affinity and spread terms read (`labels`);
* its name, if it has an ephemeral volume (the claim is called `<pod>-<volume>`).

Whether other pods' terms match this pod depends on all its labels and is no part of the template. Nor are the names of
its ResourceClaims (`PodProperties.claim_names`): only their requests and allocations decide.

``PodTemplate`` has an attribute for each rule that decides where a pod may go.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from volsched.model import api
from volsched.model.annotations import AnnotationKeys, bounded, too_long
from volsched.model.api import Taint
from volsched.model.errors import FieldError, no_attribute
from volsched.model.pods import limits as pod_limits
from volsched.model.pods.limits import PodLimits
from volsched.model.pods.placement_rules import (
    ContainerAmounts,
    HostPort,
    LegacyDisk,
    PodRules,
    PodTerm,
    SpreadConstraint,
    Toleration,
    WeightedNodeTerm,
    WeightedPodTerm,
)
from volsched.model.pods.rule_reading import (
    counting_parts,
    has_terms,
    is_claim,
    is_resized,
    label_keys,
    reported_resources,
    rules_of,
)
from volsched.model.selectors import NodeSelector
from volsched.model.values.resources import Resources

LONGEST_REMEMBERED: Final = 1 << 14
"""The most bytes of a pod's spec by which its template is found again. Few pods have more; they are parsed each time.

Thousands of texts of a megabyte would not fit into memory until they are swept.
"""

_PART: Final = 256
"""Characters of annotations that weigh as much as a term: plugins keep what they read there."""

_READS_MORE_OF_PODS: Final = (
    "a callback that reads more annotates its pod as PodTemplate (what equal pods share) or as TaskInfo (this very pod)"
)


class PodRequest(msgspec.Struct, frozen=True):
    """The request of a pod: all that a rule by amounts needs.

    ``nonzero_cpu`` and ``nonzero_memory`` are the amounts that scores assume if a container requests none.
    """

    request: Resources
    nonzero_cpu: int
    nonzero_memory: int

    if not TYPE_CHECKING:  # a type checker finds the mistake itself

        def __getattr__(self, name: str) -> object:
            raise no_attribute("PodRequest", name, dir(PodRequest), _READS_MORE_OF_PODS)


class PodConstraints(msgspec.Struct, frozen=True):
    """The rules of a pod about properties of nodes, apart from its request."""

    required_nodes: NodeSelector | None
    preferred_nodes: tuple[WeightedNodeTerm, ...]
    tolerations: tuple[Toleration, ...]
    images: tuple[str, ...]
    containers: int
    features: frozenset[str]

    def tolerates(self, taint: Taint) -> bool:
        """Return whether one of the tolerations covers the taint."""
        return any(toleration.tolerates(taint) for toleration in self.tolerations)

    if not TYPE_CHECKING:  # a type checker finds the mistake itself

        def __getattr__(self, name: str) -> object:
            raise no_attribute("PodConstraints", name, dir(PodConstraints), _READS_MORE_OF_PODS)


class PodTemplate:
    """Everything that decides where a pod may go. One object for all equal pods: compare with `is`.

    * `id`: a small number that no other template of the table ever has.
    * `request`: without the pod's own slot. `best_effort`: it is empty, the pod requests no devices either, by claims
      or by
    annotations (`asks_by_annotation`), and all of it is understood.
    * `claims`: names of PersistentVolumeClaims in `namespace_of_terms`, those of ephemeral volumes included;
    `ephemeral_claims`: the latter alone (their owner must be the pod).
    * `containers`: the number of containers and init containers; `images`: their images, then those of image volumes.
    * `has_resource_claims`: True if each task has its own list of claims.
    * `container_amounts`: all containers of a pod of which any requests extended resources, else empty; the names of
      the
    containers are with the task.
    * `features`: must all be among the node's declared features.
    * `refusals`: parts of the pod that cannot be understood: such a pod must not be placed.
    * `namespace_of_terms`: the pod's namespace if its own terms or claims need it, else empty.
    """

    __slots__ = (
        "affinity",
        "amounts",
        "annotations",
        "anti_affinity",
        "best_effort",
        "claims",
        "constraints",
        "container_amounts",
        "containers",
        "ephemeral_claims",
        "features",
        "has_resource_claims",
        "host_ports",
        "id",
        "images",
        "legacy_disks",
        "namespace_of_terms",
        "nonzero_cpu",
        "nonzero_memory",
        "preferred_affinity",
        "preferred_anti_affinity",
        "preferred_nodes",
        "refusals",
        "request",
        "required_nodes",
        "rules",
        "spread",
        "tolerations",
    )

    def __init__(self, number: int, rules: PodRules | None = None, annotations: AnnotationKeys | None = None) -> None:
        rules = rules or PodRules()
        self.id = number
        self.rules = rules
        self.amounts = PodRequest(rules.request, rules.nonzero_cpu, rules.nonzero_memory)
        self.constraints = PodConstraints(
            rules.required_nodes,
            rules.preferred_nodes,
            rules.tolerations,
            rules.images,
            rules.containers,
            rules.features,
        )
        self.request: Resources = rules.request
        self.best_effort: bool = not (
            rules.request or rules.has_resource_claims or rules.asks_by_annotation or rules.refusals
        )
        self.nonzero_cpu: int = rules.nonzero_cpu
        self.nonzero_memory: int = rules.nonzero_memory
        self.required_nodes: NodeSelector | None = rules.required_nodes
        self.preferred_nodes: tuple[WeightedNodeTerm, ...] = rules.preferred_nodes
        self.tolerations: tuple[Toleration, ...] = rules.tolerations
        self.host_ports: tuple[HostPort, ...] = rules.host_ports
        self.affinity: tuple[PodTerm, ...] = rules.affinity
        self.anti_affinity: tuple[PodTerm, ...] = rules.anti_affinity
        self.preferred_affinity: tuple[WeightedPodTerm, ...] = rules.preferred_affinity
        self.preferred_anti_affinity: tuple[WeightedPodTerm, ...] = rules.preferred_anti_affinity
        self.spread: tuple[SpreadConstraint, ...] = rules.spread
        self.claims: tuple[str, ...] = rules.claims
        self.ephemeral_claims: tuple[str, ...] = rules.ephemeral_claims
        self.legacy_disks: tuple[LegacyDisk, ...] = rules.legacy_disks
        self.images: tuple[str, ...] = rules.images
        self.containers: int = rules.containers
        self.container_amounts: tuple[ContainerAmounts, ...] = rules.container_amounts
        self.has_resource_claims: bool = rules.has_resource_claims
        self.features: frozenset[str] = rules.features
        self.refusals: tuple[FieldError, ...] = rules.refusals
        stated = dict(rules.annotations)
        self.annotations: Mapping[str, str] = stated if annotations is None else annotations.of(stated)
        self.namespace_of_terms: str = rules.namespace

    @property
    def weight(self) -> int:
        """Return the weight of data kept for it, roughly: 1 for itself, 1 for each term or long text."""
        near = len(self.affinity) + len(self.anti_affinity) + len(self.spread)
        liked = len(self.preferred_affinity) + len(self.preferred_anti_affinity) + len(self.preferred_nodes)
        required = self.required_nodes
        annotated = sum(map(len, self.annotations.values())) // _PART
        return (
            1 + near + liked + annotated + (0 if required is None else len(required.labels) + len(required.terms or ()))
        )

    @property
    def depends_on_pods(self) -> bool:
        """True if it has rules about other pods."""
        near = self.affinity or self.anti_affinity or self.preferred_affinity or self.preferred_anti_affinity
        return bool(near or self.spread)

    if not TYPE_CHECKING:  # a type checker finds the mistake itself

        def __getattr__(self, name: str) -> object:
            raise no_attribute(
                "PodTemplate",
                name,
                dir(PodTemplate),
                "it is what equal pods share; a callback about nodes that reads the name, labels, job or queue of a "
                "pod annotates it as TaskInfo, and says by a key which pods share its answers; a quota that reads them "
                "is an Allocatable(refusal), without a headroom",
            )

    def tolerates(self, taint: Taint) -> bool:
        """Return whether one of the tolerations covers the taint."""
        return self.constraints.tolerates(taint)

    def __repr__(self) -> str:
        return f"<Template {self.id} {self.request.human()}>"


class TemplateTable:
    """The templates of one cluster.

    `keep_annotation` states which annotations of a pod decide where it goes, by key, and `asking` are those by which it
    asks for something, unless they are blank; see `keep`. `limits` are how much a pod may state. Templates can be
    asked for `annotation_keys`, where these are given; they become those that are kept.
    """

    __slots__ = (
        "_annotation_keys",
        "_asking",
        "_by_bytes",
        "_by_rules",
        "_encoder",
        "_keep",
        "_kept",
        "_keys_of_terms",
        "_limits",
        "_next",
        "characters_made",
    )

    def __init__(
        self,
        keep_annotation: Callable[[str], bool] = lambda _: False,
        asking: Collection[str] = (),
        limits: PodLimits = pod_limits.DEFAULT,
        annotation_keys: AnnotationKeys | None = None,
    ) -> None:
        self._limits = limits
        self._keep = keep_annotation
        self._annotation_keys = annotation_keys
        self._asking = asking
        self._kept: dict[str, bool] = {}
        self._by_bytes: dict[bytes, PodTemplate] = {}
        self._by_rules: dict[PodRules, PodTemplate] = {}
        self._keys_of_terms: dict[bytes, tuple[str, ...]] = {}
        self._encoder = msgspec.json.Encoder()
        self._next = 0
        self.characters_made = 0
        """Of the texts by which templates were made since the last sweep."""

    def __len__(self) -> int:
        return len(self._by_rules)

    def __iter__(self) -> Iterator[PodTemplate]:
        return iter(self._by_rules.values())

    @property
    def remembered(self) -> int:
        """Return how many entries are kept until the next sweep, beside the templates."""
        return len(self._by_bytes) + len(self._kept) + len(self._keys_of_terms)

    def keep(self, keys: AnnotationKeys, asking: Collection[str] = ()) -> None:
        """Keep other annotations from now on. Templates made before have what they had: see `again`."""
        if self._annotation_keys is not None:
            self._annotation_keys.become(keys)
        self._keep = keys.covers
        self._asking = asking
        self._kept.clear()
        self._by_bytes.clear()

    def again(self, template: PodTemplate, annotations: Mapping[str, str]) -> PodTemplate:
        """Return the template of a pod that has this one, with those of the pod's annotations that are kept now."""
        kept = self._annotations(annotations)
        asks = self._asks(kept)
        if (kept, asks) == (template.rules.annotations, template.rules.asks_by_annotation):
            return template
        others = template.refusals[len(too_long(template.rules.annotations)) :]
        refusals = (*too_long(kept), *others)
        return self._of_rules(
            msgspec.structs.replace(template.rules, annotations=kept, asks_by_annotation=asks, refusals=refusals)
        )

    def intern(self, pod: api.Pod, placed_as: PodTemplate | None = None) -> PodTemplate:
        """Return the template of this pod. Make it if no equal pod was seen before.

        A placed pod keeps the annotations of the template that it was `placed_as`: users may edit them, and what it
        uses does not change with them.

        Most pods are found by the bytes of the relevant parts of their spec, without parsing them again. A pod that is
        being resized on its node has a template of its own, with the larger request.
        """
        annotations = (
            self._annotations(bounded(pod.metadata.annotations)) if placed_as is None else placed_as.rules.annotations
        )
        resized = reported_resources(pod.status) if is_resized(pod) else None
        key = self._encoder.encode((counting_parts(pod), annotations, self._identity(pod), resized))
        template = self._by_bytes.get(key)
        if template is None:
            rules = rules_of(pod, annotations, asks_by_annotation=self._asks(annotations), limits=self._limits)
            template = self._of_rules(rules)
            self.characters_made += len(key)
            if len(key) <= LONGEST_REMEMBERED:
                self._by_bytes[key] = template
        return template

    def sweep(self, live: Collection[int]) -> list[PodTemplate]:
        """Drop and return the templates whose ids are not among the live ones. Ids are not used again.

        Of the texts by which one was found the latest is kept. Other data, whose amount users decide, is computed again
        where it is still needed.
        """
        self.characters_made = 0
        dead = [template for template in self._by_rules.values() if template.id not in live]
        for template in dead:
            del self._by_rules[template.rules]
        texts = {template.id: text for text, template in self._by_bytes.items() if template.id in live}
        self._by_bytes = {texts[template.id]: template for template in self if template.id in texts}
        self._kept.clear()
        self._keys_of_terms.clear()
        return dead

    def _of_rules(self, rules: PodRules) -> PodTemplate:
        template = self._by_rules.get(rules)
        if template is None:
            template = self._by_rules[rules] = PodTemplate(self._next, rules, self._annotation_keys)
            self._next += 1
        return template

    def _annotations(self, annotations: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
        kept = self._kept
        chosen = []
        for key, value in annotations.items():
            keep = kept.get(key)
            if keep is None:
                if len(kept) > 10_000:
                    kept.clear()
                keep = kept[key] = self._keep(key)
            if keep:
                chosen.append((key, value))
        if len(chosen) > 1:
            chosen.sort()
        return tuple(chosen)

    def _asks(self, kept: Iterable[tuple[str, str]]) -> bool:
        return any(key in self._asking and value.strip() for key, value in kept)

    def _identity(self, pod: api.Pod) -> Any:
        """Return the namespace, labels and name that are part of the template, each only where it counts."""
        spec, metadata = pod.spec, pod.metadata
        labels: Any = None
        if has_terms(spec):
            terms = self._encoder.encode((spec.affinity, spec.topology_spread_constraints))
            keys = self._keys_of_terms.get(terms)
            if keys is None:
                keys = label_keys(spec)
                if len(terms) <= LONGEST_REMEMBERED:
                    self._keys_of_terms[terms] = keys
            labels = [metadata.labels.get(key) for key in keys]
        if labels is None and not any(map(is_claim, spec.volumes)):
            return None
        ephemeral = any(volume.ephemeral is not None for volume in spec.volumes)
        return metadata.namespace, labels, metadata.name if ephemeral else None
