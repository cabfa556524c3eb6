"""What would help: the smallest change of each sort, and what it leaves as it was."""

from __future__ import annotations

import pytest
import yaml

from tests.diagnose.test_explain import cluster, group, known, pod
from volsched.diagnose.advice import advise
from volsched.diagnose.explain import explain, find
from volsched.diagnose.records import Advice, Subject

pytestmark = pytest.mark.process  # a trial is a copy of the process

GANG = Subject("podgroup", "waits", "default")


def advice_on(text: str, *, seconds: bool = True) -> Advice:
    stage = known(text).stage()
    simulation = stage.run()
    before = explain(simulation, GANG)
    found = advise(stage, find(simulation, GANG), lambda: 60.0 * seconds)
    assert explain(simulation, GANG) == before
    return found


def test_the_smallest_quota_is_found_and_its_command_is_ready() -> None:
    advice = advice_on(cluster(quota=5))
    quota = next(found for found in advice.helps if found.sort == "quota")
    assert quota.sentence == "Raise nvidia.com/gpu of queue team by 3 (spec.capability)."
    assert '"nvidia.com/gpu": "8"' in quota.command
    assert quota.command.startswith("kubectl patch queue team --type merge -p ")


def test_a_smaller_gang_helps_where_one_member_fits() -> None:
    advice = advice_on(cluster(quota=6))
    assert [found.sentence for found in advice.helps if found.sort == "minMember"] == [
        "Let the gang start with 1 in place of 2 (minMember)."
    ]


def test_nodes_and_pods_help_where_cards_are_short_and_quota_does_not() -> None:
    advice = advice_on(cluster(quota=100, cards=4))
    by_sort = {found.sort: found for found in advice.helps}
    assert set(by_sort) == {"nodes", "pods"}
    assert by_sort["nodes"].sentence == "Add 1 node like n1 (1 there now)."
    assert yaml.safe_load(by_sort["nodes"].patch)["status"]["allocatable"]["nvidia.com/gpu"] == "4"
    assert by_sort["pods"].command == "kubectl delete pod -n default runs-0 runs-1"


def test_a_taint_that_keeps_it_out_is_named() -> None:
    tainted = cluster(quota=100).replace(
        "{name: n1}", "{name: n1}\nspec: {taints: [{key: a, value: b, effect: NoSchedule}]}"
    )
    advice = advice_on(tainted)
    assert [found.sentence for found in advice.helps if found.sort == "toleration"] == [
        "Tolerate the taint a=b:NoSchedule of 1 node in the pod template."
    ]


def test_a_label_that_no_node_has_is_named() -> None:
    choosy = cluster(quota=100).replace(
        '  schedulerName: volsched\n  nodeName: ""',
        '  schedulerName: volsched\n  nodeSelector: {zone: nowhere}\n  nodeName: ""',
    )
    found = [found for found in advice_on(choosy).helps if found.sort == "selector"]
    assert [found.command for found in found] == ["kubectl label node NODE zone=nowhere"]
    assert found[0].sentence.startswith("Leave zone: nowhere out of the node selector of its pods")


def test_affinity_that_no_node_meets_is_named() -> None:
    rack = "{matchExpressions: [{key: rack, operator: In, values: [r9]}]}"
    required = f"{{requiredDuringSchedulingIgnoredDuringExecution: {{nodeSelectorTerms: [{rack}]}}}}"
    choosy = cluster(quota=100).replace(
        '  schedulerName: volsched\n  nodeName: ""',
        f'  schedulerName: volsched\n  affinity: {{nodeAffinity: {required}}}\n  nodeName: ""',
    )
    found = [found for found in advice_on(choosy).helps if found.sort == "selector"]
    assert [yaml.safe_load(each.patch) for each in found] == [{"affinity": None, "nodeSelector": None}]


def test_what_there_was_no_time_for_is_said() -> None:
    advice = advice_on(cluster(), seconds=False)
    assert advice.helps == ()
    assert advice.not_tried == ("quota", "minMember", "nodes", "pods", "two changes together")


def test_a_trial_that_takes_longer_than_there_is_time_is_ended() -> None:
    stage = known(cluster()).stage()
    found = find(stage.run(), GANG)

    advice = advise(stage, found, lambda: 0.0001)

    assert (advice.helps, advice.not_tried[0], advice.nothing) == ((), "quota", "")
    assert advice.tried > 0


def test_a_quota_serves_those_before_it_first() -> None:
    later = "\n---\n".join((group("xlater"), pod("xlater", 0), pod("xlater", 1)))
    stage = known(f"{cluster(cards=12)}\n---\n{later}").stage()
    found = find(stage.run(), Subject("podgroup", "xlater", "default"))
    helps = {each.sort: each.sentence for each in advise(stage, found, lambda: 60.0).helps}
    assert helps["quota"] == "Raise nvidia.com/gpu of queue team by 8 (spec.capability)."
