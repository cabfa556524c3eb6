from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.model.objects import container, pod, sidecar
from volsched.model.api import Taint
from volsched.model.errors import FieldError
from volsched.model.pods.placement_rules import HostPort, LegacyDisk, PodTerm, SpreadConstraint, Toleration
from volsched.model.pods.template import PodTemplate, TemplateTable
from volsched.model.selectors import NOTHING, LabelSelector

ONE_CPU = {"containers": [container(requests={"cpu": "1"})]}
HOSTNAME = "kubernetes.io/hostname"


def template(spec: dict[str, Any] | None = None, **identity: Any) -> PodTemplate:
    return TemplateTable().intern(pod(spec, **identity))


def pod_affinity(*terms: dict[str, Any], kind: str = "podAffinity", preferred: bool = False) -> dict[str, Any]:
    when = (
        "preferredDuringSchedulingIgnoredDuringExecution"
        if preferred
        else "requiredDuringSchedulingIgnoredDuringExecution"
    )
    found: list[dict[str, Any]] = list(terms)
    if preferred:
        found = [{"weight": 7, "podAffinityTerm": item} for item in terms]
    return {"affinity": {kind: {when: found}}}


def apart(**term: Any) -> dict[str, Any]:
    return pod_affinity({"topologyKey": HOSTNAME, **term}, kind="podAntiAffinity")


# --- which pods share a template ---------------------------------------------------------


def test_pods_that_ask_for_the_same_share_one_template() -> None:
    table = TemplateTable()
    one = table.intern(pod(ONE_CPU, name="a", labels={"app": "x"}, annotations={"note": "1"}))
    other = table.intern(pod(ONE_CPU, name="b", namespace="elsewhere", labels={"app": "y"}))

    assert one is other
    assert (len(table), list(table)) == (1, [one])


def test_the_same_written_differently_is_the_same_template() -> None:
    table = TemplateTable()
    one = table.intern(pod({"containers": [container("x", requests={"cpu": "1", "memory": "1024Mi"})]}))
    other = table.intern(pod({"containers": [container("y", requests={"memory": "1Gi", "cpu": 1})]}))

    assert one is other


@pytest.mark.parametrize(
    "spec",
    [
        {"containers": [container(requests={"cpu": "2"})]},
        {**ONE_CPU, "nodeSelector": {"zone": "a"}},
        {**ONE_CPU, "tolerations": [{"operator": "Exists"}]},
        {**ONE_CPU, **apart()},
        {**ONE_CPU, "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]},
        {**ONE_CPU, "resourceClaims": [{"name": "gpu", "resourceClaimName": "c"}]},
        {**ONE_CPU, "hostNetwork": True, "hostUsers": False},
        {"containers": [container(requests={"cpu": "1"}, image="other")]},
        {"containers": [container(requests={"cpu": "1"}, ports=[{"hostPort": 80}])]},
    ],
)
def test_pods_that_differ_in_what_places_them_do_not(spec: dict[str, Any]) -> None:
    table = TemplateTable()

    assert table.intern(pod(ONE_CPU)) is not table.intern(pod(spec))


def test_volumes_that_need_nothing_of_a_node_do_not_count() -> None:
    table = TemplateTable()
    one = table.intern(pod({**ONE_CPU, "volumes": [{"name": "kube-api-access-abcde", "projected": {}}]}))
    other = table.intern(pod({**ONE_CPU, "volumes": [{"name": "kube-api-access-fghij", "projected": {}}]}))

    assert one is other


def test_only_chosen_annotations_count() -> None:
    table = TemplateTable(lambda key: key.startswith("volcano.sh/"))
    plain = table.intern(pod(ONE_CPU, annotations={"note": "1"}))
    carded = table.intern(pod(ONE_CPU, annotations={"note": "2", "volcano.sh/card.name": "A100"}))
    again = table.intern(pod(ONE_CPU, annotations={"volcano.sh/card.name": "A100", "note": "3"}))

    assert plain.annotations == {}
    assert carded.annotations == {"volcano.sh/card.name": "A100"}
    assert carded is again
    assert carded is not plain


def test_an_annotation_is_asked_about_once() -> None:
    asked: list[str] = []

    def keep(key: str) -> bool:
        asked.append(key)
        return False

    table = TemplateTable(keep)
    for value in range(3):
        table.intern(pod(annotations={"a": str(value)}))

    assert asked == ["a"]


def test_own_terms_make_namespace_and_the_labels_that_they_look_at_count() -> None:
    table = TemplateTable()
    spec = {**ONE_CPU, **apart(labelSelector={"matchLabels": {"app": "x"}}, matchLabelKeys=["hash"])}
    labels = {"app": "x", "hash": "1", "index": "0"}
    found = table.intern(pod(spec, labels=labels))

    assert (found.rules.namespace, dict(found.rules.labels)) == ("default", {"app": "x", "hash": "1"})
    assert table.intern(pod(spec, labels={**labels, "index": "1"})) is found
    assert table.intern(pod(spec, labels={**labels, "app": "y"})) is not found
    assert table.intern(pod(spec, labels={**labels, "hash": "2"})) is not found
    assert table.intern(pod(spec, labels=labels, namespace="other")) is not found


def test_claims_make_the_namespace_count() -> None:
    table = TemplateTable()
    spec = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}
    found = table.intern(pod(spec, name="a"))

    assert (found.claims, found.ephemeral_claims, found.namespace_of_terms) == (("data",), (), "default")
    assert table.intern(pod(spec, name="b")) is found
    assert table.intern(pod(spec, namespace="other")) is not found


def test_an_ephemeral_volume_makes_the_name_count() -> None:
    table = TemplateTable()
    spec = {"volumes": [{"name": "v", "ephemeral": {}}, {"name": "w", "persistentVolumeClaim": {"claimName": "data"}}]}
    found = table.intern(pod(spec, name="a"))

    assert (found.claims, found.ephemeral_claims) == (("a-v", "data"), ("a-v",))
    assert table.intern(pod(spec, name="b")) is not found


def test_a_pod_that_is_resized_on_its_node_takes_more_for_a_while() -> None:
    table = TemplateTable()
    spec = {**ONE_CPU, "nodeName": "n1"}
    reported = [{"name": "main", "resources": {"requests": {"cpu": "3"}}}]
    as_asked = [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]

    waiting = table.intern(pod(ONE_CPU))

    assert table.intern(pod(spec, status={"containerStatuses": reported})).request == {"cpu": 3000}
    assert table.intern(pod(spec, status={"containerStatuses": as_asked})) is waiting


def test_templates_that_nobody_has_are_forgotten_and_their_ids_not_used_again() -> None:
    table = TemplateTable()
    one, two, three = (table.intern(pod({"containers": [container(requests={"cpu": n})]})) for n in (1, 2, 3))

    assert [item.id for item in (one, two, three)] == [0, 1, 2]
    assert table.sweep({one.id, three.id}) == [two]
    assert list(table) == [one, three]
    again = table.intern(pod({"containers": [container(requests={"cpu": 2})]}))
    assert (again is two, again.id) == (False, 3)
    assert table.intern(pod(ONE_CPU)) is one
    assert table.sweep({item.id for item in table}) == []


def test_what_is_remembered_of_pods_does_not_outlive_a_sweep() -> None:
    """Users decide how many annotations and terms there are, although all these pods are alike."""
    table = TemplateTable()
    for number in range(100):
        table.intern(pod(ONE_CPU, annotations={f"note-{number}": "x"}))
    assert (len(table), table.remembered >= 100) == (1, True)

    assert table.sweep({0}) == []

    assert (len(table), table.remembered) == (1, 1), "by the text that came last"


# --- requests ---------------------------------------------------------


def test_a_pod_that_asks_for_nothing_is_best_effort() -> None:
    found = template({"containers": [container(requests={"pods": "3", "cpu": "0"})]})

    assert found.best_effort
    assert found.request == {}
    assert not template(ONE_CPU).best_effort
    assert (template(ONE_CPU).nonzero_cpu, template(ONE_CPU).nonzero_memory) == (1000, 200 * 2**20)


# --- nodes ---------------------------------------------------------


def test_required_nodes_join_selector_and_affinity() -> None:
    zone = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    found = template(
        {
            "nodeSelector": {"disk": "ssd"},
            "affinity": {
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [zone]}}
            },
        }
    ).required_nodes

    assert found is not None
    assert found.matches("n", {"disk": "ssd", "zone": "a"})
    assert not found.matches("n", {"disk": "ssd"})
    assert template().required_nodes is None


def test_preferred_nodes_keep_their_weights_and_empty_ones_are_dropped() -> None:
    gpu = {"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}
    terms = [{"weight": 5, "preference": gpu}, {"weight": 3, "preference": {}}, {"weight": 0, "preference": gpu}]
    found = template({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}})

    assert [(item.weight, item.term.matches("n", {"gpu": ""})) for item in found.preferred_nodes] == [(5, True)]
    assert found.refusals == ()


@pytest.mark.parametrize(
    ("toleration", "taint", "tolerated"),
    [
        ({"operator": "Exists"}, ("k", "v", "NoSchedule"), True),
        ({"key": "k", "operator": "Exists"}, ("k", "v", "NoExecute"), True),
        ({"key": "k", "operator": "Exists"}, ("other", "v", "NoExecute"), False),
        ({"key": "k", "operator": "Exists", "effect": "NoSchedule"}, ("k", "v", "NoExecute"), False),
        ({"key": "k", "value": "v"}, ("k", "v", "NoSchedule"), True),
        ({"key": "k", "value": "v", "operator": "Equal"}, ("k", "w", "NoSchedule"), False),
        ({"key": "k"}, ("k", "", "NoSchedule"), True),
        ({"value": "v"}, ("k", "v", "NoSchedule"), True),
        ({"key": "k", "operator": "Gt", "value": "750"}, ("k", "950", "NoSchedule"), True),
        ({"key": "k", "operator": "Gt", "value": "750"}, ("k", "750", "NoSchedule"), False),
        ({"key": "k", "operator": "Lt", "value": "750"}, ("k", "-3", "NoSchedule"), True),
        ({"key": "k", "operator": "Lt", "value": "750"}, ("k", "007", "NoSchedule"), False),
        ({"key": "k", "operator": "Lt", "value": "750"}, ("k", "low", "NoSchedule"), False),
    ],
)
def test_tolerations(toleration: dict[str, str], taint: tuple[str, str, str], tolerated: bool) -> None:
    found = template({"tolerations": [{"key": "else", "value": "x"}, toleration]})

    assert found.tolerates(Taint(*taint)) is tolerated
    assert found.refusals == ()


def test_host_ports_are_those_of_containers_and_sidecars() -> None:
    found = template(
        {
            "containers": [container(ports=[{"containerPort": 80}, {"containerPort": 80, "hostPort": 8080}])],
            "initContainers": [
                sidecar("s", ports=[{"hostPort": 53, "protocol": "UDP", "hostIP": "10.0.0.1"}]),
                container("i", ports=[{"hostPort": 99}]),
            ],
        }
    )

    assert found.host_ports == (HostPort("0.0.0.0", "TCP", 8080), HostPort("10.0.0.1", "UDP", 53))  # noqa: S104


def test_on_the_host_network_every_port_is_a_host_port() -> None:
    found = template({"hostNetwork": True, "containers": [container(ports=[{"containerPort": 80}])]})

    assert found.host_ports == (HostPort("0.0.0.0", "TCP", 80),)  # noqa: S104


@pytest.mark.parametrize(
    ("other", "conflict"),
    [
        (HostPort("10.0.0.1", "TCP", 80), True),
        (HostPort("0.0.0.0", "TCP", 80), True),  # noqa: S104
        (HostPort("10.0.0.2", "TCP", 80), False),
        (HostPort("10.0.0.1", "UDP", 80), False),
        (HostPort("10.0.0.1", "TCP", 81), False),
    ],
)
def test_host_ports_conflict_by_address_protocol_and_number(other: HostPort, conflict: bool) -> None:
    port = HostPort("10.0.0.1", "TCP", 80)

    assert port.conflicts_with(other) is other.conflicts_with(port) is conflict


def test_features_are_inferred() -> None:
    restarts = container(restartPolicyRules=[{"action": "RestartAllContainers"}])

    assert template({"hostNetwork": True, "hostUsers": False}).features == {"UserNamespacesHostNetworkSupport"}
    assert template({"hostNetwork": True}).features == set()
    assert template({"initContainers": [restarts]}).features == {"RestartAllContainersOnContainerExits"}


def test_images_have_a_tag_and_come_with_image_volumes() -> None:
    found = template(
        {
            "containers": [container(image="registry:5000/a"), container(image="b:1"), container(image="b:1")],
            "initContainers": [container(image="c@sha256:12")],
            "volumes": [{"name": "v", "image": {"reference": "models/llm"}}],
        }
    )

    assert found.images == ("c@sha256:12", "registry:5000/a:latest", "b:1", "b:1", "models/llm:latest")
    assert found.containers == 4


# --- other pods ---------------------------------------------------------


def test_a_term_means_the_own_namespace_unless_it_says_otherwise() -> None:
    app = {"labelSelector": {"matchLabels": {"app": "x"}}}
    cases: list[tuple[dict[str, Any], list[bool]]] = [
        ({}, [True, False, False]),
        ({"namespaces": ["other"]}, [False, True, False]),
        ({"namespaceSelector": {}}, [True, True, True]),
        ({"namespaceSelector": {"matchLabels": {"team": "a"}}}, [False, False, True]),
        ({"namespaces": ["other"], "namespaceSelector": {"matchLabels": {"team": "a"}}}, [False, True, True]),
    ]
    for more, expected in cases:
        (term,) = template(apart(**app, **more)).anti_affinity
        found = [
            term.matches("default", {"app": "x"}, {}),
            term.matches("other", {"app": "x"}, {}),
            term.matches("third", {"app": "x"}, {"team": "a"}),
        ]
        assert found == expected, more
        assert not term.matches("default", {"app": "y"}, {"team": "a"})


def test_terms_without_a_selector_match_no_pod() -> None:
    (term,) = template(apart()).anti_affinity

    assert term == PodTerm(HOSTNAME, NOTHING, frozenset({"default"}))
    assert not term.matches("default", {}, {})


def test_all_four_kinds_of_terms_are_told_apart() -> None:
    near = {"topologyKey": "zone", "labelSelector": {}}

    assert template(pod_affinity(near)).affinity[0].topology_key == "zone"
    assert template(pod_affinity(near, kind="podAntiAffinity")).anti_affinity[0].topology_key == "zone"
    assert template(pod_affinity(near, preferred=True)).preferred_affinity[0].weight == 7
    assert template(pod_affinity(near, kind="podAntiAffinity", preferred=True)).preferred_anti_affinity[0].weight == 7


def test_label_keys_are_merged_as_the_api_server_does() -> None:
    written = {
        "labelSelector": {"matchLabels": {"app": "x"}},
        "matchLabelKeys": ["hash"],
        "mismatchLabelKeys": ["tenant"],
    }
    admitted = {
        **written,
        "labelSelector": {
            "matchLabels": {"app": "x"},
            "matchExpressions": [
                {"key": "hash", "operator": "In", "values": ["1"]},
                {"key": "tenant", "operator": "NotIn", "values": ["t"]},
            ],
        },
    }
    labels = {"app": "x", "hash": "1", "tenant": "t"}
    table = TemplateTable()

    assert table.intern(pod(apart(**written), labels=labels)) is table.intern(pod(apart(**admitted), labels=labels))


def spread(**fields: Any) -> SpreadConstraint:
    labels = {"app": "x", "hash": "1"}
    found = template({"topologySpreadConstraints": [{"topologyKey": "zone", **fields}]}, labels=labels)
    assert found.refusals == ()
    return found.spread[0]


def test_a_spread_constraint_is_read_with_its_defaults() -> None:
    assert spread(maxSkew=2, whenUnsatisfiable="DoNotSchedule", labelSelector={"matchLabels": {"app": "x"}}) == (
        SpreadConstraint("zone", 2, hard=True, selector=LabelSelector.of({"app": "x"}), counts_self=1)
    )
    assert spread(
        maxSkew=1,
        whenUnsatisfiable="ScheduleAnyway",
        labelSelector={"matchLabels": {"app": "y"}},
        matchLabelKeys=["hash", "none"],
        minDomains=3,
        nodeAffinityPolicy="Ignore",
        nodeTaintsPolicy="Honor",
    ) == SpreadConstraint(
        "zone",
        1,
        hard=False,
        selector=LabelSelector.of({"app": "y", "hash": "1"}),
        min_domains=3,
        honor_affinity=False,
        honor_taints=True,
    )


def test_an_empty_selector_counts_no_pod_but_the_pod_itself_and_an_absent_one_none() -> None:
    empty, absent = spread(labelSelector={}), spread()

    assert (empty.counts({"app": "x"}), empty.counts_self) == (False, 1)
    assert (absent.counts({"app": "x"}), absent.counts_self) == (False, 0)
    assert spread(labelSelector={"matchLabels": {"app": "x"}}).counts({"app": "x"})


# --- volumes and claims ---------------------------------------------------------


def disk(kind: str, **fields: Any) -> LegacyDisk:
    (found,) = template({"volumes": [{"name": "v", kind: fields}]}).legacy_disks
    return found


def gce(read_only: bool = False, name: str = "d") -> LegacyDisk:
    return disk("gcePersistentDisk", pdName=name, readOnly=read_only)


def rbd(monitors: list[str], read_only: bool = False, **fields: str) -> LegacyDisk:
    return disk("rbd", monitors=monitors, readOnly=read_only, image="i", **fields)


@pytest.mark.parametrize(
    ("one", "other", "conflict"),
    [
        (gce(), gce(), True),
        (gce(), gce(read_only=True), True),
        (gce(read_only=True), gce(read_only=True), False),
        (gce(), gce(name="e"), False),
        (disk("awsElasticBlockStore", volumeID="d"), disk("awsElasticBlockStore", volumeID="d", readOnly=True), True),
        (disk("awsElasticBlockStore", volumeID="d"), gce(), False),
        (disk("iscsi", iqn="q", lun=0), disk("iscsi", iqn="q", lun=1), True),
        (rbd(["a", "b"]), rbd(["b"]), True),
        (rbd(["a", "b"]), rbd(["c"]), False),
        (rbd(["a"], pool="rbd"), rbd(["a"]), True),
        (rbd(["a"], pool="other"), rbd(["a"]), False),
        (rbd(["a"], read_only=True), rbd(["a"], read_only=True), False),
    ],
)
def test_disks_of_the_old_kinds_conflict(one: LegacyDisk, other: LegacyDisk, conflict: bool) -> None:
    assert one.conflicts_with(other) is other.conflicts_with(one) is conflict


def test_that_a_pod_has_resource_claims_counts_and_not_which() -> None:
    table = TemplateTable()
    named = pod({"resourceClaims": [{"name": "a", "resourceClaimName": "mine"}]}, name="a")
    others = [{"name": "b", "resourceClaimName": "yours"}, {"name": "c", "resourceClaimTemplateName": "each"}]

    assert table.intern(pod({"resourceClaims": others}, name="b", namespace="elsewhere")) is table.intern(named)
    assert table.intern(named).has_resource_claims
    assert not table.intern(pod({})).has_resource_claims


# --- refusals ---------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"containers": [container(requests={"cpu": "x"})]}, "spec.containers[0].resources.requests[cpu]"),
        ({"tolerations": [{}, {"operator": "Like"}]}, "spec.tolerations[1].operator"),
        ({"tolerations": [{"operator": "Gt", "value": "x"}]}, "spec.tolerations[0].value"),
        (
            apart(labelSelector={"matchExpressions": [{"key": "k", "operator": "Gt", "values": ["1"]}]}),
            "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]"
            ".labelSelector.matchExpressions[0].operator",
        ),
        (
            pod_affinity({"topologyKey": ""}, preferred=True),
            "spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm.topologyKey",
        ),
        (
            apart(namespaceSelector={"matchExpressions": [{"key": "k", "operator": "?"}]}),
            "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]"
            ".namespaceSelector.matchExpressions[0].operator",
        ),
        ({"topologySpreadConstraints": [{}]}, "spec.topologySpreadConstraints[0].topologyKey"),
        (
            {"topologySpreadConstraints": [{"topologyKey": "z", "whenUnsatisfiable": "Never"}]},
            "spec.topologySpreadConstraints[0].whenUnsatisfiable",
        ),
        (
            {"topologySpreadConstraints": [{"topologyKey": "z", "maxSkew": 0}]},
            "spec.topologySpreadConstraints[0].maxSkew",
        ),
        ({"containers": [{"ports": [{"hostPort": 1}, {"hostPort": 65536}]}]}, "spec.containers[0].ports[1].hostPort"),
        ({"containers": [{"ports": [{"hostPort": -1}]}]}, "spec.containers[0].ports[0].hostPort"),
        (
            {"hostNetwork": True, "containers": [{"ports": [{"containerPort": 70000}]}]},
            "spec.containers[0].ports[0].containerPort",
        ),
        (
            {"initContainers": [{}, {"restartPolicy": "Always", "ports": [{"hostPort": 1, "protocol": "ICMP"}]}]},
            "spec.initContainers[1].ports[0].protocol",
        ),
        (
            {"topologySpreadConstraints": [{"topologyKey": "z", "minDomains": 0}]},
            "spec.topologySpreadConstraints[0].minDomains",
        ),
        (
            {"topologySpreadConstraints": [{"topologyKey": "z", "nodeTaintsPolicy": "Maybe"}]},
            "spec.topologySpreadConstraints[0].nodeTaintsPolicy",
        ),
        (
            {
                "affinity": {
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [{"matchExpressions": [{"key": "k", "operator": "Like"}]}]
                        }
                    }
                }
            },
            "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]"
            ".matchExpressions[0].operator",
        ),
    ],
)
def test_what_is_not_understood_refuses_the_pod(spec: dict[str, Any], path: str) -> None:
    found = template(spec)

    assert [refusal.path for refusal in found.refusals] == [path]
    assert found.refusals[0].__traceback__ is None


def test_all_faults_are_told() -> None:
    found = template({"tolerations": [{"operator": "A"}, {"operator": "B"}], "overhead": {"cpu": "x"}})

    assert [refusal.path for refusal in found.refusals] == [
        "spec.overhead[cpu]",
        "spec.tolerations[0].operator",
        "spec.tolerations[1].operator",
    ]
    assert isinstance(found.refusals[0], FieldError)


# --- properties ---------------------------------------------------------

LABELS = st.dictionaries(st.sampled_from("ab"), st.sampled_from("xy"), max_size=2)
SPECS = st.fixed_dictionaries(
    {
        "containers": st.lists(
            st.builds(container, requests=st.fixed_dictionaries({"cpu": st.sampled_from("12")})), max_size=2
        )
    },
    optional={
        "nodeSelector": LABELS,
        "tolerations": st.lists(st.fixed_dictionaries({"key": st.sampled_from("ab")}), max_size=2),
        "affinity": st.fixed_dictionaries(
            {
                "podAntiAffinity": st.fixed_dictionaries(
                    {
                        "requiredDuringSchedulingIgnoredDuringExecution": st.lists(
                            st.fixed_dictionaries(
                                {
                                    "topologyKey": st.just("zone"),
                                    "labelSelector": st.fixed_dictionaries({"matchLabels": LABELS}),
                                },
                                optional={"matchLabelKeys": st.lists(st.sampled_from("ab"), max_size=1)},
                            ),
                            max_size=2,
                        )
                    }
                )
            }
        ),
        "volumes": st.lists(
            st.sampled_from(
                [
                    {"name": "v", "ephemeral": {}},
                    {"name": "w", "persistentVolumeClaim": {"claimName": "c"}},
                    {"name": "x", "emptyDir": {}},
                ]
            ),
            max_size=2,
        ),
    },
)
PODS = st.builds(
    pod, SPECS, name=st.sampled_from("pq"), namespace=st.sampled_from("mn"), labels=LABELS, annotations=LABELS
)


@pytest.mark.slow(reason="hundreds of random inputs")
@settings(max_examples=200)
@given(st.lists(PODS, min_size=2, max_size=6))
def test_pods_share_a_template_just_when_their_rules_are_equal(pods: list[Any]) -> None:
    table = TemplateTable(lambda key: key == "a")
    found = [table.intern(item) for item in pods]
    alone = [TemplateTable(lambda key: key == "a").intern(item).rules for item in pods]

    for one, rules in zip(found, alone, strict=True):
        assert one.rules == rules
        for other, others in zip(found, alone, strict=True):
            assert (one is other) is (rules == others)


def test_a_toleration_for_nothing_in_particular_is_a_value() -> None:
    assert Toleration() == Toleration(operator="Equal")
    assert repr(template(ONE_CPU)) == "<Template 0 {'cpu': '1'}>"


def test_chosen_annotations_count_in_any_order_and_many_keys_do_no_harm() -> None:
    table = TemplateTable(lambda key: key in ("a", "b"))
    found = table.intern(pod(annotations={"b": "2", "a": "1"}))

    assert table.intern(pod(annotations={str(number): "" for number in range(10_002)})) is not found
    assert table.intern(pod(annotations={"a": "1", "b": "2"})) is found
    assert found.annotations == {"a": "1", "b": "2"}


def test_what_says_very_much_has_one_template_and_is_not_remembered() -> None:
    table = TemplateTable()
    long = [{"key": "k" * 9_000, "operator": "Exists"}, {"key": "l" * 9_000, "operator": "Exists"}]
    pods = [pod({**ONE_CPU, "tolerations": long}) for _ in range(2)]
    assert table.intern(pods[0]) is table.intern(pods[1])
    assert table.remembered == 0
