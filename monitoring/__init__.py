"""Dashboards as data, and the files of `manifests/grafana` and `manifests/prometheus` that are made from it."""
