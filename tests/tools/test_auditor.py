"""The auditor of the drills follows a real API server; `tests/drills/test_audit.py` shows what it finds."""

from __future__ import annotations

from drills.audit import Auditor
from tests.cluster.control_plane import OURS
from tests.cluster.served import wait_served
from tools.controlplane import ControlPlane, a_binding, a_node, a_pod, find_binaries


def test_it_follows_an_api_server_that_is_restarted() -> None:
    with ControlPlane(binaries=find_binaries(), controller_manager=False, manifests=OURS) as control_plane:
        wait_served(control_plane)
        api, path = control_plane.api, "/api/v1/namespaces/default/pods"
        api.create("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
        control_plane.create_nodes([a_node("n0", cpu="1")])
        auditor = Auditor(api, quotas=False).start()
        pods = [api.create(path, a_pod(f"p{index}", scheduler="nobody", cpu="1")) for index in range(2)]
        api.create(f"{path}/p0/binding", a_binding(pods[0], "n0"))
        auditor.catch_up()
        assert auditor.placed() == {"default/p0": "n0"}
        assert auditor.counts == {}
        assert auditor.waiting("nobody") == ["default/p1"]

        control_plane.restart()
        api.create(f"{path}/p1/binding", a_binding(pods[1], "n0"))
        auditor.catch_up()

        assert any(text.startswith("pods listed anew after") for text in auditor.relisted)
        assert auditor.counts == {"node": 1}
        assert auditor.failures == []
        assert auditor.recount() == []
        auditor.stop()
