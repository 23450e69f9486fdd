#pragma once
// The messages of the protocol (schema/protocol.md), as plain structs. frame.h turns them into
// ZeroMQ frames (16-byte header + CBOR) and back. A field that a peer of version N-1 does not send
// keeps its default.
//
// Roles: C client (SDK), D daemon, W worker, I ingress helper, O operator (CLI, supervisor).

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "shared/base/host_memory.h"
#include "shared/base/result.h"

namespace holdfast::wire {

using holdfast::MemoryPool;
using TokenId = std::int32_t;
/// Stands for the vector of an embedding (vector_text.h). No vocabulary has it: its piece is empty.
inline constexpr TokenId kVectorToken = -1;
/// Stands for the log-probabilities of a prompt (prompt_scores.h) where no token was asked for.
inline constexpr TokenId kScoresToken = -2;

/// Orders the attempts of a request: a later fence always compares greater, also over daemon
/// restarts (the boot epoch is raised, durably, before the first socket is bound).
struct Fence {
  std::uint64_t epoch = 0;
  std::uint64_t counter = 0;
  auto operator<=>(const Fence&) const = default;
};

/// Resolved sampling parameters: nothing is left to a default of the receiver.
struct Sampling {
  float temperature = 1.0f;  // 0 = greedy
  std::int32_t top_k = 0;    // 0 = off
  float top_p = 1.0f;        // 1 = off
  float min_p = 0.0f;        // 0 = off
  std::uint64_t seed = 0;    // drawn at acceptance if the client gave none
  bool ignore_eos = false;
  std::int32_t min_tokens = 0;
  std::int32_t logprobs = -1;       // -1 off, else how many alternatives
  float repetition_penalty = 1.0f;  // 1 = off
  float presence_penalty = 0.0f;
  float frequency_penalty = 0.0f;
  std::string extra;  // JSON object: further fields (logit_bias, grammar: shared/grammar/request.h)
  std::int32_t prompt_logprobs = -1;  // as logprobs, of the prompt's tokens
};

/// What a client asks for. Exactly one of `text`, `ids`, `messages_json` is set.
struct Prompt {
  std::optional<std::string> text;
  std::optional<std::vector<TokenId>> ids;
  std::optional<std::string> messages_json;  // {"messages": […], "tools": […], …} of a chat request
};

enum class PriorityClass : std::uint8_t { kInteractive = 0, kNormal = 1, kBatch = 2 };
enum class OnDisconnect : std::uint8_t { kContinue = 0, kCancel = 1 };
enum class RequestState : std::uint8_t {
  kQueued,
  kRunning,
  kSucceeded,
  kFailed,
  kCancelled,
  kExpired,
  kQuarantined
};
std::string_view state_name(RequestState state);  // "queued", …
bool is_terminal(RequestState state);
enum class FinishReason : std::uint8_t { kNone, kStop, kLength, kCancelled, kError, kExpired };
std::string_view finish_name(FinishReason reason);  // "stop", "length", …

// ---------------------------------------------------------------- client <-> daemon

/// C→D. Answer: ACCEPTED or REFUSED with the same tag. `request_id` is made by the client before it
/// sends (so a repeat after a lost answer finds the same request); empty = the daemon makes one.
struct Submit {
  std::uint64_t tag = 0;
  std::string request_id;
  std::string tenant;           // empty = "default"
  std::string idem_key;         // empty = none
  std::string model;            // name or alias
  std::vector<Prompt> prompts;  // 1 or more; choices = prompts x n, prompt-major
  std::int32_t n = 1;
  std::optional<std::int64_t> max_tokens;  // absent: what is left of the context
  Sampling sampling;
  bool seed_given = false;
  std::vector<std::string> stops;
  bool echo = false;
  bool add_special = true;  // BOS etc. as the model's file says
  PriorityClass priority = PriorityClass::kNormal;
  std::int64_t queue_timeout_ms = 0;  // 0 = none
  std::int64_t total_timeout_ms = 0;  // 0 = none
  OnDisconnect on_disconnect = OnDisconnect::kContinue;
  /// Client's hash of its body for idem_key; empty: the daemon hashes this message.
  std::string body_hash;
  std::string meta;  // opaque to us, handed back with RequestInfo (the gateway's own JSON)
  /// Requests with the same text (a session, a user) get the same target of an alias. Empty: the
  /// idempotency key, else the request's id.
  std::string sticky;
  std::string api_key;                           // id of the key that it came with; empty = none
  std::optional<std::int64_t> key_max_requests;  // of that key, that have not ended
  std::optional<std::int64_t> key_requests_per_minute;  // accepted in any 60 s
};

/// How a key stands with its requests a minute, this answer's included.
struct KeyStanding {
  std::int64_t limit = 0;
  std::int64_t left = 0;
  std::int64_t reset_ms = 0;  // until all of them are left, if none comes
};

/// One choice of a request as the client sees it.
struct ChoiceInfo {
  std::int32_t choice = 0;
  std::int32_t prompt = 0;
  std::int64_t next_index = 0;  // committed tokens
  FinishReason finish = FinishReason::kNone;
  std::string error_code;  // errc_name, when finish is kError
  std::string error;
};

struct RequestInfo {
  std::string request_id;
  std::string tenant;
  std::string model;  // as resolved (alias target)
  std::string model_sha;
  RequestState state = RequestState::kQueued;
  std::int64_t created_ms = 0;
  std::int64_t finished_ms = 0;
  std::vector<std::int64_t> prompt_tokens;  // per prompt
  std::vector<std::string> prompt_text;     // per prompt, only if echo
  std::vector<ChoiceInfo> choices;
  std::int64_t max_tokens = 0;
  Sampling sampling;
  std::vector<std::string> stops;
  bool echo = false;
  std::int64_t queue_position = -1;  // 0 = next; -1 when not queued
  std::int64_t eta_ms = -1;
  std::string meta;
  std::string alias;  // the name asked for, if that is not the model's
};

struct Accepted {
  std::uint64_t tag = 0;
  bool duplicate = false;  // the id or the idempotency key was known: nothing new was started
  RequestInfo info;
  std::optional<KeyStanding> key = {};  // if it has such a limit
  std::vector<std::string> notes = {};  // of the preparation, to the first that asked (Prepared)
};

/// Numbers that help; -1 = does not apply.
struct Refusal {
  Errc code = Errc::kInternal;
  std::string message;
  std::int64_t needed = -1;
  std::int64_t free = -1;
  std::int64_t largest = -1;  // largest that fits
  std::int64_t retry_after_ms = -1;
  std::int64_t queue_position = -1;
  std::int64_t eta_ms = -1;
  std::optional<KeyStanding> key = {};  // if it has such a limit
};

struct Refused {
  std::uint64_t tag = 0;
  Refusal refusal;
};

/// C→D. Streams events of a known request from `from[choice]` on (absent = 0). Found by request_id,
/// or by (tenant, idem_key). Answer: ATTACHED, then EVENTs and one FIN; or REFUSED (not_found).
/// At most `window` tokens are in flight beyond what CREDIT has named.
struct Attach {
  std::uint64_t tag = 0;
  std::string request_id;
  std::string tenant;
  std::string idem_key;
  std::vector<std::int64_t> from;
  std::int64_t window = 1024;
};
struct Attached {
  std::uint64_t tag = 0;
  RequestInfo info;
};
/// C→D: the client has taken tokens [0, upto) of this choice.
struct Credit {
  std::uint64_t tag = 0;
  std::string request_id;
  std::int32_t choice = 0;
  std::int64_t upto = 0;
};
struct Detach {
  std::uint64_t tag = 0;
  std::string request_id;
  bool for_good = false;  // nobody comes back: what ends with its client ends at once
};
/// D→C: committed tokens [start, start + ids.size()) of a choice. `bytes` is the concatenation of
/// the tokens' bytes (a token may end inside a UTF-8 sequence), `ends[i]` where token i ends in it.
struct Event {
  std::uint64_t tag = 0;  // of the ATTACH
  std::string request_id;
  std::int32_t choice = 0;
  std::int64_t start = 0;
  std::vector<TokenId> ids;
  std::string bytes;
  std::vector<std::uint32_t> ends;
  std::vector<std::string> extra;  // per token (logprobs as JSON), empty when there is none
  // Per token what a control token is called, which is no text of the answer; empty when none is.
  std::vector<std::string> special;
};
/// D→C: every choice has ended and all its tokens were sent on this attachment.
struct Fin {
  std::uint64_t tag = 0;
  RequestInfo info;
};
/// C→D. Idempotent. Answer: STATUS_REPLY with the state after the commit, or REFUSED (not_found).
struct Cancel {
  std::uint64_t tag = 0;
  std::string request_id;
  std::string tenant;
};
struct StatusQuery {
  std::uint64_t tag = 0;
  std::string request_id;
  std::string tenant;
  std::string idem_key;
};
struct StatusReply {
  std::uint64_t tag = 0;
  RequestInfo info;
};
struct ModelsQuery {
  std::uint64_t tag = 0;
};
struct ModelInfo {
  std::string name;
  std::string sha;
  std::string architecture;
  std::string state;  // registered, placing, loading, warming, ready, draining, unloaded, failed
  std::int64_t context = 0;
  std::int64_t created_ms = 0;
  bool chat = false;
  std::string output;  // how it writes reasoning and calls: chat::read_output
  std::string reason;
  std::string alias_of;  // of an alias: "MODEL=WEIGHT,…"; the rest is that of its first target
};
struct ModelsReply {
  std::uint64_t tag = 0;
  std::vector<ModelInfo> models;
};
/// Either way, any peer: the answer to PING repeats the tag.
struct Ping {
  std::uint64_t tag = 0;
};
struct Pong {
  std::uint64_t tag = 0;
  std::int64_t message_bytes = 0;  // of the daemon: the longest frame that it takes; 0 = not said
};

// ---------------------------------------------------------------- operator <-> daemon

/// O→D. `verb` is the CLI's ("models.add", "requests.cancel", "queue.stats", "status", …), `args`
/// a JSON object. schema/protocol.md has the table of verbs.
struct Op {
  std::uint64_t tag = 0;
  std::string verb;
  std::string args;
  std::string tenant;  // whose it is: few verbs, for its own objects alone; empty = an operator's
  bool from_network = false;  // the operator came over the network: some things are not for him
  std::string bytes;          // content that `args` speaks of: no text, so not in it
};
struct OpResult {
  std::uint64_t tag = 0;
  bool ok = false;
  Refusal refusal;     // when !ok
  std::string result;  // JSON, when ok
  std::string bytes;   // content that `result` speaks of
};

// ---------------------------------------------------------------- worker <-> daemon

struct ActiveItem {
  std::string request_id;
  std::int32_t choice = 0;
  Fence fence;
  std::int64_t first_unacked = 0;
  std::int64_t next_index = 0;
  bool finished = false;  // its last token and finish reason wait in the ring
};
struct MemoryReport {  // bytes on the worker's device
  std::int64_t total = 0;
  std::int64_t free = 0;
  std::int64_t weights = 0;
  std::int64_t kv = 0;
  std::int64_t scratch = 0;
  std::int64_t rss = 0;
  std::int64_t taken = 0;  // by which the process grew with a load, measured; 0 = not measured
  std::int64_t at_us = 0;  // when it was measured, on the machine's monotonic clock; 0 = not known
  std::vector<MemoryPool> pools;  // that its loads take from, the newest numbers
};
/// What a loaded model can take. Credits are arithmetic of the daemon over these numbers.
struct LoadedModel {
  std::string load_id;
  std::string model_sha;
  std::string numerics_class;
  std::string state;  // as ModelInfo::state
  std::int32_t slots = 0;
  std::int32_t pages_total = 0;
  std::int32_t page_tokens = 64;
  std::int64_t context = 0;
  MemoryReport memory;
  std::string reason;
  double progress = 0;   // 0..1 while loading
  std::string identity;  // of the file whose bytes were loaded (hf::Stamp); empty = not known
};
/// W→D, first message on every connection. A new process has a new `incarnation`.
struct Hello {
  std::string worker_key;
  std::string incarnation;
  std::int64_t pid = 0;
  /// Start of the process in clock ticks since the boot of the host (/proc/PID/stat). With the pid
  /// it names one process for good. 0: not said.
  std::int64_t started_ticks = 0;
  std::string host;
  std::string device;   // "cpu", "opencl:0", …
  std::string kernels;  // family in use
  std::int32_t threads = 0;
  std::string engine;  // "model" | "fake"
  MemoryReport memory;
  std::vector<LoadedModel> models;
  std::vector<ActiveItem> active;
  std::uint64_t epoch_seen = 0;
};
struct Welcome {
  std::uint64_t epoch = 0;
  std::string worker_id;
  /// The daemon gave this worker up while its connection lived: it must say HELLO again.
  bool greet_again = false;
};
/// D→W: go on with this choice, stamp its ring with `fence`; tokens below ack_upto are committed.
struct Adopt {
  std::string request_id;
  std::int32_t choice = 0;
  Fence fence;
  std::int64_t ack_upto = 0;
};
struct Drop {
  std::string request_id;
  std::int32_t choice = 0;
  std::string reason;
};
struct Load {
  std::string load_id;
  std::string model_sha;
  std::string path;
  std::int64_t size = 0;
  std::int64_t mtime_ns = 0;
  std::int64_t context = 0;        // tokens per sequence at most
  std::int32_t slots = 0;          // sequences at once
  std::int32_t pages = 0;          // KV pages of page_tokens tokens
  std::string kv_type;             // "f16", …
  std::string kernels;             // empty = the worker's choice
  std::int32_t prefill_chunk = 0;  // tokens of prefill per step; 0 = default
  std::string options;             // JSON for the fake engine and experiments
  std::int32_t threads = 0;        // of the worker's at most; 0 = all of them
  std::string identity;            // hf::Stamp: of another one the SHA-256 is looked at
  std::int64_t bytes = 0;          // that are reserved for it
};
struct Unload {
  std::string load_id;
};
/// W→D: a load changed its state (or its memory). The daemon decides what that means.
struct StateReport {
  LoadedModel model;
};
struct Dispatch {
  std::string request_id;
  std::int32_t choice = 0;
  Fence fence;
  std::string load_id;
  std::string model_sha;
  std::vector<TokenId> prompt_ids;
  std::vector<TokenId> committed_ids;
  Sampling sampling;
  std::vector<std::string> stops;
  std::int64_t max_tokens = 0;     // counted from index 0, committed ones included
  std::int64_t time_left_ms = -1;  // -1 = no deadline
  std::int32_t priority = 1;
  std::string state;  // sampler state that ids cannot rebuild
  /// At most 16 bytes: sequences share pages of the prefix cache with those of the same value
  /// alone.
  std::string prefix_root;
};
struct TokenEvent {
  std::string request_id;
  std::int32_t choice = 0;
  Fence fence;
  std::int64_t start = 0;
  std::vector<TokenId> ids;
  FinishReason finish = FinishReason::kNone;  // after the last of ids
  std::string error_code;
  std::string error;
  std::vector<std::string> extra;
  /// In the first event of a dispatch: its tokens that the worker's prefix cache had.
  std::optional<std::int64_t> cached_tokens = {};
};
/// W→D: the fruit of one engine step, all sequences together.
struct Tokens {
  std::uint64_t step = 0;
  std::vector<TokenEvent> events;
};
struct AckItem {
  std::string request_id;
  std::int32_t choice = 0;
  Fence fence;
  std::int64_t upto = 0;
  bool finished = false;  // the finish is committed: forget this choice
};
struct Ack {
  std::vector<AckItem> items;
};
struct CancelWork {
  std::string request_id;
  std::int32_t choice = 0;
  Fence fence;
};
/// W→D: this dispatch was not taken or is handed back (no pages, stale load, draining, preempted
/// for good). No blame; dispatched again elsewhere or later.
struct Returned {
  std::string request_id;
  std::int32_t choice = 0;
  Fence fence;
  std::string reason;
};
struct Drain {
  bool resume = false;
};
struct Drained {};
/// W→D, every second and after each load: what is used now.
struct WorkerStats {
  MemoryReport memory;
  std::int32_t running = 0;
  std::int32_t pages_used = 0;
  std::uint64_t steps = 0;
  std::uint64_t tokens = 0;
  std::uint64_t prefill_tokens = 0;         // of prompts, and of what was committed before
  std::uint64_t preemptions = 0;            // a sequence gave its pages back and begins again
  std::uint64_t draft_tokens = 0;           // guessed and computed
  std::uint64_t accepted_draft_tokens = 0;  // and right
  std::uint64_t allocations = 0;            // device + engine allocations since start
  double step_ms = 0;                       // recent mean
};

// ---------------------------------------------------------------- ingress <-> daemon

struct IngressHello {
  std::int64_t pid = 0;
};
/// D→I: turn prompts into token ids. Answer: PREPARED with the same job.
struct Prepare {
  std::uint64_t job = 0;
  std::string model_sha;
  std::vector<Prompt> prompts;
  bool add_special = true;
  bool echo = false;
  std::string extra;          // Sampling::extra of the request: its grammar is checked
  bool parse_special = true;  // special tokens are read from prompts of text
  bool names = false;         // the text of ids has special tokens by their names
};
struct Prepared {
  std::uint64_t job = 0;
  bool ok = false;
  Refusal refusal;
  std::vector<std::vector<TokenId>> ids;
  std::vector<std::string> text;   // the rendered prompts, when echo
  bool embedding = false;          // `extra` asks for the vector of each prompt, not for text
  std::vector<std::string> notes;  // what was done to messages so that the template takes them
};
/// I→D, and the answer: the model's tokenizer as a GGUF without tensors.
struct NeedTokenizer {
  std::string model_sha;
};
struct TokenizerBlob {
  std::string model_sha;
  std::string blob;  // empty: unknown model
};
/// D→I: read a model file (in a sandboxed child). Answer: INSPECTED.
struct Inspect {
  std::uint64_t job = 0;
  std::string path;
  std::string roots;  // "DIR:DIR…": the file must lie below one, links followed; empty: anywhere
};
struct Inspected {
  std::uint64_t job = 0;
  bool ok = false;
  Refusal refusal;
  std::string model_sha;  // SHA-256 of the file, hex
  std::int64_t size = 0;
  std::int64_t mtime_ns = 0;
  std::string shape;      // JSON: plan::ModelShape
  std::string tokenizer;  // GGUF without tensors
  std::string pieces;     // text::encode_pieces: the bytes of every token
  std::string output;     // chat::describe_output of its chat template
  std::string identity;   // hf::Stamp
};

using Message =
    std::variant<Submit, Accepted, Refused, Attach, Attached, Credit, Detach, Event, Fin, Cancel,
                 StatusQuery, StatusReply, ModelsQuery, ModelsReply, Ping, Pong, Op, OpResult,
                 Hello, Welcome, Adopt, Drop, Load, Unload, StateReport, Dispatch, Tokens, Ack,
                 CancelWork, Returned, Drain, Drained, WorkerStats, IngressHello, Prepare, Prepared,
                 NeedTokenizer, TokenizerBlob, Inspect, Inspected>;

}  // namespace holdfast::wire
