"""The overview: does the scheduler work, what waits, what does it cost."""

from __future__ import annotations

from monitoring.grafana import Dashboard, Panel, Query, Row

RATE = "[$__rate_interval]"


def rate(metric: str, by: str = "", where: str = "") -> str:
    """The sum of a counter's rates by some labels."""
    return f"sum by ({by}) (rate({metric}{where}{RATE}))" if by else f"sum(rate({metric}{where}{RATE}))"


def quantile(part: float, histogram: str, by: str = "", where: str = "") -> str:
    """The value that this part of a histogram stays below, by some labels."""
    labels = f"{by}, le" if by else "le"
    return f"histogram_quantile({part}, sum by ({labels}) (rate({histogram}_bucket{where}{RATE})))"


def quantiles(histogram: str, where: str = "") -> tuple[Query, ...]:
    """Median, 90 and 99 of a hundred."""
    return tuple(Query(quantile(part, histogram, where=where), f"p{part * 100:g}") for part in (0.5, 0.9, 0.99))


WAITING = Row(
    "What waits, and why",
    (
        Panel(
            "Pods that wait",
            (Query("sum(volsched_pending_pods) or vector(0)", "pods"),),
            "Pods without a node, whatever they wait for.",
            kind="stat",
            width=4,
            height=4,
        ),
        Panel(
            "Jobs that wait",
            (Query("sum(volsched_pending_jobs) or vector(0)", "jobs"),),
            "PodGroups, or pods by themselves, with pods that wait.",
            kind="stat",
            width=4,
            height=4,
        ),
        Panel(
            "Longest wait now",
            (Query("max(volsched_oldest_pending_pod_age_seconds) or vector(0)", "age"),),
            "Since the pod was created that waits longest.",
            kind="stat",
            unit="s",
            width=4,
            height=4,
            thresholds=(600, 3600),
        ),
        Panel(
            "By reason",
            (Query("sum by (queue, step, reason, condition) (volsched_pending_pods)", "pods"),),
            "Steps, reasons and conditions are explained in docs/events.md.",
            kind="table",
            width=12,
        ),
        Panel(
            "Pods by step",
            (Query("sum by (step) (volsched_pending_pods)", "{{step}}"),),
            "enqueue and allocatable are quota, predicate is nodes, gang waits for the rest of its gang.",
            width=12,
            height=8,
            stacked=True,
        ),
        Panel(
            "Pods by condition",
            (Query('sum by (condition) (volsched_pending_pods{condition!=""})', "{{condition}}"),),
            "Unschedulable lacks nodes: autoscalers act on it, and on nothing else. All others wait for something that "
            "more nodes do not bring.",
            width=12,
            height=8,
            stacked=True,
        ),
        Panel(
            "Pods by queue",
            (Query("sum by (queue) (volsched_pending_pods)", "{{queue}}"),),
            "Pods without a node, by queue.",
            width=12,
            stacked=True,
        ),
    ),
)

WAITS = Row(
    "How long pods wait",
    (
        Panel(
            "From creation to binding",
            quantiles("volsched_pod_wait_seconds"),
            "Creation is known to the second. Time behind scheduling gates counts.",
            unit="s",
        ),
        Panel(
            "From decision to binding",
            quantiles("volsched_bind_duration_seconds"),
            "With the pod's volumes and devices, and the line for the API server.",
            unit="s",
        ),
        Panel(
            "Attempts, and pods a second",
            (
                Query(rate("volsched_job_attempts_total"), "attempts at jobs"),
                Query(rate("volsched_pods_placed_total"), "placed"),
                Query(rate("volsched_pods_bound_total"), "bound"),
                Query(rate("volsched_binds_refused_total"), "refused"),
            ),
            "Refused ones are tried again.",
            unit="ops",
        ),
        Panel(
            "Evictions a second",
            (
                Query(rate("volsched_pods_evicted_total"), "decided"),
                Query(rate("volsched_evictions_sent_total"), "deleted"),
                Query(rate("volsched_evictions_refused_total"), "refused"),
            ),
            "Decided by a session, then deleted at the API server, or refused there.",
            unit="ops",
        ),
        Panel(
            "Searches for room and victims a second",
            (
                Query(rate("volsched_preemption_attempts_total", "action"), "searches by {{action}}"),
                Query(rate("volsched_preemption_victims_total", "action"), "victims of {{action}}"),
            ),
            "Searches that find no pod to evict have no victims.",
            unit="ops",
        ),
        Panel(
            "Searches for whole gangs a second",
            (Query(rate("volsched_gang_searches_total", "outcome"), "{{outcome}}"),),
            "Gangs whose pods found no nodes one by one. Exhausted ones used up gang.searchSteps; skipped ones "
            "wait for the next session.",
            unit="ops",
        ),
    ),
)

HEALTH = Row(
    "Is the leader healthy",
    (
        Panel(
            "Leaders",
            (Query("sum by (job) (volsched_leader)", "{{job}}"),),
            "Exactly one of each: none, or two, is an alert.",
            kind="stat",
            width=4,
            height=4,
            exactly=1,
        ),
        Panel(
            "Replicas",
            (Query('sum by (job) (up{job=~"volsched-.*"})', "{{job}}"),),
            "Processes that Prometheus reaches; one alone has nobody to take over.",
            kind="stat",
            width=4,
            height=4,
            thresholds=(1, 2),
            high_is_good=True,
        ),
        Panel(
            "Versions",
            (Query("count by (job, version) (volsched_build_info)", "replicas"),),
            "What runs; more than one of a job during a rollout only.",
            kind="table",
            width=4,
            height=4,
        ),
        Panel(
            "Leases renewed, seconds ago",
            (Query("max by (job) (volsched_lease_renewal_age_seconds and volsched_leader == 1)", "{{job}}"),),
            "A leader that could not renew for 10 s stops writing, and ends.",
            unit="s",
            width=6,
        ),
        Panel(
            "Last session and heartbeat, seconds ago",
            (
                Query("max(volsched_last_session_age_seconds and volsched_leader == 1)", "session"),
                Query("max(volsched_scheduling_thread_silence_seconds and volsched_leader == 1)", "heartbeat"),
            ),
            "An idle leader runs a session each 30 s.",
            unit="s",
            width=6,
        ),
        Panel(
            "Length of sessions",
            (*quantiles("volsched_session_duration_seconds"),),
            "One session decides about everything that has changed.",
            unit="s",
        ),
        Panel(
            "Sessions a second",
            (Query(rate("volsched_session_duration_seconds_count"), "sessions"),),
            "A session begins when something has changed, and each 30 s.",
            unit="ops",
        ),
        Panel(
            "Time in actions",
            (Query(rate("volsched_action_duration_seconds_sum", "action"), "{{action}}"),),
            "Seconds of each second.",
            unit="percentunit",
            stacked=True,
        ),
        Panel(
            "Time in opening plugins",
            (Query(rate("volsched_plugin_open_duration_seconds_sum", "plugin"), "{{plugin}}"),),
            "Seconds of each second.",
            unit="percentunit",
            stacked=True,
        ),
        Panel(
            "CPU",
            (
                Query(
                    'sum by (job, instance) (rate(process_cpu_seconds_total{job=~"volsched-.*"}[$__rate_interval]))',
                    "{{job}} {{instance}}",
                ),
            ),
            "Cores.",
        ),
        Panel(
            "Memory",
            (Query('process_resident_memory_bytes{job=~"volsched-.*"}', "{{job}} {{instance}}"),),
            "Resident memory of each process.",
            unit="bytes",
        ),
    ),
)

CONFIGURATION = Row(
    "Is the configuration the one that I applied",
    (
        Panel(
            "Newest one in force",
            (Query("min(volsched_config_valid)", "1: yes"),),
            "0 when the newest text was refused or is missing; the last good one stays.",
            kind="stat",
            width=4,
            height=5,
            thresholds=(1, 1),
            high_is_good=True,
        ),
        Panel(
            "In force since",
            (Query("max(volsched_config_last_reload_timestamp_seconds) * 1000", "loaded"),),
            "When the configuration in force was loaded, by the replica that did it last.",
            kind="stat",
            unit="dateTimeFromNow",
            width=4,
            height=5,
        ),
        Panel(
            "Newest",
            (Query("count by (hash, source, verdict) (volsched_config_newest_info)", "replicas"),),
            "The hash is the beginning of the text's SHA-256; docs/metrics.md says how to compute it.",
            kind="table",
            height=5,
        ),
        Panel(
            "In force",
            (Query("count by (hash, source) (volsched_config_info)", "replicas"),),
            "By hash of the text; replicas that differ have not read the same.",
            kind="table",
            height=5,
        ),
        Panel(
            "Verdicts",
            (Query("sum by (verdict) (increase(volsched_config_verdicts_total[$__rate_interval]))", "{{verdict}}"),),
            "Texts that were judged: loaded, refused, or missing where one should be.",
            width=24,
            height=6,
        ),
    ),
)

API_SERVER = Row(
    "What the API server has to do",
    (
        Panel(
            "Requests a second",
            (Query(rate("volsched_api_requests_total", "job, verb, resource"), "{{job}} {{verb}} {{resource}}"),),
            "By process, verb and resource; a watch counts when it is opened.",
            unit="reqps",
            width=12,
            stacked=True,
        ),
        Panel(
            "Requests that failed, a second",
            (Query(rate("volsched_api_requests_total", "job, code", '{code!~"2.."}'), "{{job}} {{code}}"),),
            "401 and 403 are missing rights, 409 is another writer, 429 the API server's own limit.",
            unit="reqps",
            width=12,
        ),
        Panel(
            "Length of requests, 99 of 100",
            (
                Query(
                    quantile(0.99, "volsched_api_request_duration_seconds", "verb, resource"), "{{verb}} {{resource}}"
                ),
            ),
            "From sending to the last byte of the answer; watches are left out.",
            unit="s",
            width=12,
        ),
        Panel(
            "Seconds held back by our own limit, each second",
            (Query(rate("volsched_api_throttled_seconds_total", "job"), "{{job}}"),),
            "Summed over requests; 0 without --kube-api-qps.",
            width=12,
        ),
        Panel(
            "Changes read a second",
            (Query(rate("volsched_watch_changes_total", "job, resource"), "{{job}} {{resource}}"),),
            "Changes of objects that came in by watches.",
            unit="ops",
            stacked=True,
        ),
        Panel(
            "Watches begun again, a second",
            (Query(rate("volsched_watch_restarts_total", "resource, reason"), "{{resource}}: {{reason}}"),),
            "ended is the usual end after some minutes.",
            unit="ops",
        ),
        Panel(
            "Objects",
            (Query("max by (resource) (volsched_objects)", "{{resource}}"),),
            "Objects that are known, by resource.",
        ),
        Panel(
            "Writes and changes that wait",
            (Query("max by (lane) (volsched_lane_depth)", "{{lane}}"),),
            "bind has evictions too; inbox is what the next session takes in.",
        ),
        Panel(
            "Writes given up or spared, a second",
            (
                Query(rate("volsched_writes_dropped_total", "lane"), "{{lane}} given up"),
                Query(rate("volsched_writes_spared_total", "lane"), "{{lane}} spared"),
            ),
            "Spared: there was nothing new to say.",
            unit="ops",
        ),
        Panel(
            "Statuses and Events a second",
            (
                Query(rate("volsched_statuses_written_total"), "statuses"),
                Query(rate("volsched_events_sent_total"), "Events"),
            ),
            "What is written behind bindings.",
            unit="ops",
        ),
    ),
)

CONTROLLERS = Row(
    "Do the controllers keep up",
    (
        Panel(
            "At work",
            (
                Query("sum(volsched_controllers_active)", "active"),
                Query("sum(volsched_controllers_standing_aside)", "standing aside"),
            ),
            "They stand aside where Volcano's own controllers run.",
            kind="stat",
            width=4,
        ),
        Panel(
            "From seeing a pod to its PodGroup",
            quantiles("volsched_controllers_group_lag_seconds"),
            "Until the pod names its PodGroup.",
            unit="s",
            width=10,
        ),
        Panel(
            "What waits",
            (
                Query("max by (kind) (volsched_controllers_queue_depth)", "{{kind}}"),
                Query("max(volsched_controllers_pods_without_group)", "pods without a PodGroup"),
            ),
            "Objects that have to be looked at, by kind.",
            width=10,
        ),
        Panel(
            "Looks at objects a second",
            (Query(rate("volsched_controllers_reconciles_total", "kind"), "{{kind}}"),),
            "Those that went well.",
            unit="ops",
            width=12,
            stacked=True,
        ),
        Panel(
            "Looks that failed a second",
            (Query(rate("volsched_controllers_reconcile_errors_total", "kind"), "{{kind}}"),),
            "They are tried again after a growing pause.",
            unit="ops",
            width=12,
        ),
    ),
)

OVERVIEW = Dashboard(
    "overview",
    "volsched / Overview",
    "Does the scheduler work, what waits, what does it cost. Metrics: docs/metrics.md. Alerts: docs/alerts.md.",
    (WAITING, WAITS, HEALTH, CONFIGURATION, CONTROLLERS, API_SERVER),
)
