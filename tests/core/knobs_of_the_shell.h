#pragma once
// Knobs whose effect is in sockets, files and processes: tests/process/knobs_test has their rows.

namespace holdfast::core {

inline constexpr const char* kKnobsOfTheShell[] = {
    "queue.read_requests",
    "nodes.fetch_bytes_s",
    "link.group_messages",
    "link.worker_heartbeat_ms",
    "link.client_heartbeat_ms",
    "link.client_timeout_ms",
    "link.high_water",
    "link.client_message_bytes",
    "link.worker_message_bytes",
    "link.ingress_message_bytes",
    "link.outbox_messages",
    "storage.reserve_bytes",
    "storage.min_free_bytes",
    "drain.limit_ms",
    "objects.max_count",
    "objects.max_bytes",
    "objects.max_tenant_percent",
    "objects.reserve_bytes",
    "storage.refuse_lost_log",
    "ha.strict",
    "ha.synced",
    "ha.silence_ms",
    "tenant.*.max_objects",
    "tenant.*.max_object_bytes",
    "tenant.*.max_responses",
    "tenant.*.max_open_batches",
};

/// Knobs that hold a text, each with tests of its own: roots_test, prefix_group_test.
inline constexpr const char* kTextKnobs[] = {"models.roots", "tenant.*.share_prefixes"};

}  // namespace holdfast::core
