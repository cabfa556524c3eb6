"""Programs that tests, drills and benches stand on: a control plane, a node, a browser. They are not in the wheel."""
