#pragma once
// Rows that the machine writes: typed changes, applied by the store in one transaction. The structs
// carry the columns of schema/*.sql under the same names.

#include <string>
#include <variant>
#include <vector>

#include "control/core/alias_rows.h"
#include "control/core/config_version.h"
#include "control/core/types.h"

namespace holdfast::core {

/// A row of the table of requests.
struct RequestRow {
  Seq seq = 0;
  std::string id;
  std::string tenant;
  std::string idem_key;  // empty = none (NULL)
  std::string body_hash;
  std::string model;  // name as resolved
  std::string model_sha;
  RequestState state = RequestState::kQueued;
  PriorityClass priority = PriorityClass::kNormal;
  std::string numerics_class;  // empty until the first committed token
  std::int64_t config_version = 0;
  std::int32_t n = 1;
  std::int64_t max_tokens = 0;
  wire::OnDisconnect on_disconnect = wire::OnDisconnect::kContinue;
  std::int64_t created_ms = 0;  // wall
  std::int64_t started_ms = 0;  // first dispatch, 0 = not yet
  std::int64_t finished_ms = 0;
  std::int64_t queue_deadline_ms = 0;  // wall, 0 = none
  std::int64_t total_deadline_ms = 0;  // wall, 0 = none
  std::string error_code;
  std::string error;
  std::string alias;            // the name asked for, if that is not the model's
  std::uint64_t route_key = 0;  // route_key() of the conversation
  std::int64_t canary = 0;      // run of the canary that it went to; 0 = none
  std::string rerouted_from;    // the model before a canary was rolled back
  std::string api_key;          // id of the key that it came with; empty = none
};

/// A row of the table of choices.
struct ChoiceRow {
  std::int32_t choice = 0;
  std::int32_t prompt = 0;
  std::int64_t next_index = 0;
  FinishReason finish = FinishReason::kNone;
  std::string error_code;
  std::string error;
  std::int32_t deaths = 0;         // deaths that count against it (control/core/blame.h)
  std::int64_t deaths_index = -1;  // next index at the last of them
};

/// Fields of a request that are not looked at while it waits.
struct PayloadRow {
  wire::Sampling sampling;
  std::vector<std::string> stops;
  bool echo = false;
  std::string meta;
  std::vector<std::vector<TokenId>> prompt_ids;
  std::vector<std::string> prompt_text;  // only if echo
};

/// A row of the table of models.
struct ModelRow {
  std::string name;
  std::string sha;
  std::string path;
  std::int64_t size = 0;
  std::int64_t mtime_ns = 0;
  std::string architecture;
  std::int64_t context = 0;  // tokens per sequence, as requested and possible
  std::int32_t slots = 0;
  std::int32_t pages = 0;
  std::int64_t prefill_chunk = 0;
  std::string kv_type;
  std::int32_t vocab = 0;  // 0 = unknown
  bool chat = false;
  std::int64_t weights_bytes = 0;  // envelope
  std::int64_t kv_bytes = 0;       // for `pages`
  std::int64_t scratch_bytes = 0;
  std::string options;          // JSON for the worker's engine
  std::string shape;            // JSON: plan::ModelShape
  bool load_requested = false;  // by a request or an operator
  ModelState state = ModelState::kRegistered;
  std::string reason;
  std::int64_t created_ms = 0;
  std::int64_t last_used_ms = 0;
  std::string tokenizer_sha;  // of tokenizer and chat template; empty = not known
  std::string output;         // how it writes reasoning and calls: chat::describe_output
  std::string profile;        // what this name adds to the file (shared/profile); empty: nothing
};

/// A row of the table of loads: a model on a worker, from its placement to its end.
struct LoadRow {
  std::string load_id;
  std::string model;
  std::string model_sha;
  std::string worker_key;
  std::string incarnation;
  ModelState state = ModelState::kPlacing;
  std::string numerics_class;
  std::int32_t slots = 0;
  std::int32_t pages = 0;
  std::int32_t page_tokens = 64;
  std::int64_t context = 0;
  std::int64_t bytes = 0;  // the reservation; it may outlive the load (Remains)
  std::string reason;
  std::int64_t created_ms = 0;
  std::int64_t ready_ms = 0;
  std::int64_t ended_ms = 0;
};

// ---- changes

/// Adds a request with its choices and prompts.
struct InsertRequest {
  RequestRow row;
  std::vector<ChoiceRow> choices;
  PayloadRow payload;
};
/// The columns of a request that change after acceptance.
struct UpdateRequest {
  Seq seq = 0;
  RequestState state = RequestState::kQueued;
  PriorityClass priority = PriorityClass::kNormal;
  std::string numerics_class;
  std::int64_t started_ms = 0;
  std::int64_t finished_ms = 0;
  std::string error_code;
  std::string error;
};

/// Writes the state of a choice.
struct UpdateChoice {
  Seq seq = 0;
  ChoiceRow row;
};

/// Adds tokens of a choice.
struct InsertChunk : TokenRun {
  Seq seq = 0;
  std::int32_t choice = 0;
};

/// Adds an attempt of a choice on a worker, under its fence.
struct BeginAttempt {
  Seq seq = 0;
  std::int32_t choice = 0;
  Fence fence;
  std::string worker_key;
  std::string incarnation;
  std::string load_id;
  std::int64_t start_index = 0;
  bool adopted = false;
  std::int64_t started_ms = 0;
};

/// Ends an attempt, with its last index and the reason.
struct EndAttempt {
  Seq seq = 0;
  std::int32_t choice = 0;
  Fence fence;
  std::int64_t ended_ms = 0;
  std::int64_t end_index = 0;
  std::string reason;
};

/// Writes a model, new or changed.
struct PutModel {
  ModelRow row;
};

/// Writes the texts that belong to a file of weights, by its hash.
struct PutModelBlobs {
  std::string sha;
  std::string tokenizer;
  std::string detokenizer;
};

/// Deletes a model by its name.
struct DeleteModel {
  std::string name;
};
struct PutLoad {  // also holds the reservation: bytes > 0 while the load has not ended
  LoadRow row;
};

/// Adds a line to the history of a model, a load or a worker.
struct InsertTransition {
  std::string subject;  // "model" | "load" | "worker" | "node"
  std::string key;
  std::string from;
  std::string to;
  std::int64_t at_ms = 0;
  std::int64_t memory_before = 0;
  std::int64_t memory_after = 0;
  std::string reason;
};
struct PutFlag {  // small durable switches: "queue.paused", "drain/WORKER"
  std::string name;
  std::string value;
};

/// Deletes an ended request with all that belongs to it.
struct DeleteRequest {
  Seq seq = 0;
};

/// Adds a version of the configuration, which is then the current one.
struct InsertConfigVersion {
  ConfigVersion version;
};

/// An object that gateways store for their clients: file, batch, response. The machine knows
/// nothing of them.
struct ObjectRow {
  Seq seq = 0;       // of all objects, in the order in which they were made
  std::string kind;  // "file", …
  std::string id;    // unique among those of its kind
  std::string owner;
  std::int64_t version = 0;  // 1 for a new one, higher with each change
  std::int64_t created_ms = 0;
  std::int64_t changed_ms = 0;
  std::int64_t expires_ms = 0;  // 0 = never
  std::string body;             // JSON
  std::int64_t bytes = 0;       // of its content, which only grows
};

/// Writes an object, new or changed, and appends to its content.
struct PutObject {
  ObjectRow row;       // as it is now, `append` included
  std::string append;  // bytes that were appended to its content
};

/// Deletes an object with its content.
struct DeleteObject {
  Seq seq = 0;
};

using RowChange =
    std::variant<InsertRequest, UpdateRequest, UpdateChoice, InsertChunk, BeginAttempt, EndAttempt,
                 PutModel, PutModelBlobs, DeleteModel, PutLoad, InsertTransition, PutFlag,
                 InsertConfigVersion, DeleteRequest, AliasChange, PutObject, DeleteObject>;

// ---- what a start reads

/// A choice as the database has it, with its open attempt if there is one.
struct BootChoice {
  ChoiceRow row;
  std::vector<TokenId> ids;  // committed ones, only while the choice has not ended
  bool has_attempt = false;
  Fence fence;
  std::string worker_key;
  std::string incarnation;
  std::string load_id;
};
/// A request as the database has it: live ones at a start, ended ones when somebody asks.
struct BootRequest {
  RequestRow row;
  std::vector<BootChoice> choices;
  wire::Sampling sampling;
  std::vector<std::string> stops;
  bool echo = false;
  std::string meta;
  std::vector<std::int64_t> prompt_tokens;
  std::string damaged;  // why its committed tokens could not be read; empty = all is well
};

}  // namespace holdfast::core
