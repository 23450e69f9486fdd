#pragma once
// Rows of aliases and canaries (schema/003_aliases.sql) and their changes.

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace holdfast::core {

/// A model behind an alias and its share of the traffic.
struct AliasTarget {
  std::string model;
  std::int64_t weight = 1;
  bool operator==(const AliasTarget&) const = default;
};
using AliasTargets = std::vector<AliasTarget>;

/// A row of the table of aliases.
struct AliasRow {
  std::string name;
  std::int64_t id = 0;  // part of the routing hash
  AliasTargets targets;
  AliasTargets pending;  // replace the targets when their models are ready; empty = none
  std::string pending_who;
  std::int64_t pending_ms = 0;  // wall
  std::int64_t created_ms = 0;
  std::int64_t changed_ms = 0;
};

/// One change of an alias, also one that a canary made.
struct AliasHistoryRow {
  std::string alias;
  std::int64_t at_ms = 0;
  std::string who;
  std::string action;  // created, changed, waits, switched, abandoned, removed, canary …
  std::string from;    // targets_text()
  std::string to;
  std::string reason;
};

/// Share and bounds of one canary: the knobs `canary.*` as they were when it began, overridden by
/// what the operator asked for.
struct CanarySettings {
  std::int64_t percent = 5;  // of the alias's new requests
  std::int64_t window_ms = 60'000;
  std::int64_t min_requests = 20;
  std::int64_t clear_errors = 5;
  std::int64_t max_error_percent = 2;
  std::int64_t max_refusal_percent = 2;
  std::int64_t max_queue_percent = 400;
  std::int64_t max_ttft_percent = 150;
  std::int64_t ttft_slack_ms = 50;
  std::int64_t max_itl_percent = 150;
  std::int64_t itl_slack_ms = 10;
  std::int64_t promote_after = 0;  // windows without a breach in a row; 0 = never by itself
  bool operator==(const CanarySettings&) const = default;
};

/// State of a canary as it is stored.
enum class CanaryState : std::uint8_t { kLoading, kRunning, kRolledBack, kPromoted };
std::string_view canary_state_name(CanaryState state);  // "loading", …
/// kRolledBack for an unknown name.
CanaryState canary_state_from_name(std::string_view name);

/// A row of the table of canaries: a version of an alias that is tried on a part of the traffic.
struct CanaryRow {
  std::int64_t id = 0;
  std::string alias;
  std::string model;
  CanaryState state = CanaryState::kLoading;
  CanarySettings settings;
  std::int64_t windows = 0;  // judged so far
  std::int64_t passed = 0;   // of these, the last in a row without a breach
  bool suspect = false;      // the last window had a breach
  std::int64_t started_ms = 0;
  std::int64_t ended_ms = 0;
  std::string who;
  std::string reason;
};

/// Numbers that were counted for one side of an alias in one window.
struct SideEvidence {
  std::int64_t accepted = 0;
  std::int64_t refused = 0;
  std::int64_t ended = 0;          // succeeded, failed or expired; not cancelled
  std::int64_t failed = 0;         // of these: failed or expired
  std::int64_t interrupted = 0;    // choices whose worker died under them, by its own fault
  std::int64_t queue_percent = 0;  // waiting choices per 100 slots, mean
  std::int64_t ttft_count = 0;     // requests still without a token count with their age
  std::int64_t ttft_p95_us = 0;
  std::int64_t itl_count = 0;
  std::int64_t itl_p95_us = 0;
};

/// A row of the table of windows: what both sides of a canary did in one of them.
struct CanaryWindowRow {
  std::int64_t canary = 0;
  std::int64_t window = 0;  // from 1
  std::int64_t started_ms = 0;
  std::int64_t ended_ms = 0;
  std::string decision;  // "continue", "roll back", "promote"
  std::string reason;
  SideEvidence canary_side;
  SideEvidence stable_side;
};

// ---- changes

/// Writes an alias, new or changed.
struct PutAlias {
  AliasRow row;
};

/// Deletes an alias by its name.
struct DeleteAlias {
  std::string name;
};

/// Adds a line to the history of an alias.
struct InsertAliasHistory {
  AliasHistoryRow row;
};

/// Writes a canary, new or changed.
struct PutCanary {
  CanaryRow row;
};

/// Adds a window that has ended.
struct InsertCanaryWindow {
  CanaryWindowRow row;
};
/// Moves a request without a committed token to another model.
struct RerouteRequest {
  std::int64_t seq = 0;
  std::string model;
  std::string model_sha;
  std::string rerouted_from;
};
using AliasChange = std::variant<PutAlias, DeleteAlias, InsertAliasHistory, PutCanary,
                                 InsertCanaryWindow, RerouteRequest>;

}  // namespace holdfast::core
