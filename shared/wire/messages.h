#pragma once
// The messages of the protocol (schema/protocol.md), as plain structs. frame.h turns them into
// ZeroMQ frames (16-byte header + CBOR) and back. A field that a peer of version N-1 does not send
// has its default.
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
#include "shared/domain/fence.h"
#include "shared/domain/request_state.h"
#include "shared/domain/sampling.h"
#include "shared/domain/token_run.h"

namespace holdfast::wire {

using domain::Fence;
using domain::finish_name;
using domain::FinishReason;
using domain::is_terminal;
using domain::kScoresToken;
using domain::kVectorToken;
using domain::OnDisconnect;
using domain::PriorityClass;
using domain::RequestState;
using domain::Sampling;
using domain::state_name;
using domain::TokenId;
using domain::TokenRun;
using holdfast::MemoryPool;

/// A client's prompt. Exactly one of `text`, `ids`, `messages_json` is set.
struct Prompt {
  std::optional<std::string> text;
  std::optional<std::vector<TokenId>> ids;
  std::optional<std::string> messages_json;  // {"messages": […], "tools": […], …} of a chat request
};

// ---------------------------------------------------------------- client <-> daemon

/// C→D. Answer: ACCEPTED or REFUSED with the same tag. The client makes `request_id` before it
/// sends (so a repeat after a lost answer finds the same request); empty = the daemon makes one.
struct Submit {
  std::uint64_t tag = 0;
  std::string request_id;
  std::string tenant;           // empty = "default"
  std::string idem_key;         // empty = none
  std::string model;            // name or alias
  std::vector<Prompt> prompts;  // 1 or more; choices = prompts x n, prompt-major
  std::int32_t n = 1;
  std::optional<std::int64_t> max_tokens;  // absent: the rest of the context
  Sampling sampling;
  bool seed_given = false;
  std::vector<std::string> stops;
  bool echo = false;
  bool add_special = true;  // BOS etc. as in the model's file
  PriorityClass priority = PriorityClass::kNormal;
  std::int64_t queue_timeout_ms = 0;  // 0 = none
  std::int64_t total_timeout_ms = 0;  // 0 = none
  OnDisconnect on_disconnect = OnDisconnect::kContinue;
  /// Client's hash of its body for idem_key; empty: the daemon hashes this message.
  std::string body_hash;
  std::string meta;  // opaque to us, returned with RequestInfo (the gateway's own JSON)
  /// Requests with the same text (a session, a user) get the same target of an alias. Empty: the
  /// idempotency key, else the request's id.
  std::string sticky;
  std::string api_key;                                  // the API key's id; empty = none
  std::optional<std::int64_t> key_max_requests;         // of that key: most live requests
  std::optional<std::int64_t> key_requests_per_minute;  // accepted in any 60 s
  /// How long the model stays loaded after its last request; negative: without end. Absent: as it
  /// is configured.
  std::optional<std::int64_t> keep_alive_ms;
  /// Names of the options that the client set itself: a profile of the model does not change them.
  /// Absent: those that differ from their defaults.
  std::optional<std::vector<std::string>> given;
};

/// The state of a key's limit of requests a minute, including this request.
struct KeyStanding {
  std::int64_t limit = 0;
  std::int64_t left = 0;
  std::int64_t reset_ms = 0;  // until all of them are left again, without further requests
};

/// One choice of a request in the client's view.
struct ChoiceInfo {
  std::int32_t choice = 0;
  std::int32_t prompt = 0;
  std::int64_t next_index = 0;  // committed tokens
  FinishReason finish = FinishReason::kNone;
  std::string error_code;  // errc_name, when finish is kError
  std::string error;
};

/// A request's state as D reports it.
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
  std::string alias;  // the requested name, if that is not the model's
};

/// D→C: the answer to SUBMIT.
struct Accepted {
  std::uint64_t tag = 0;
  bool duplicate = false;  // the id or the idempotency key exists already: nothing new was started
  RequestInfo info;
  std::optional<KeyStanding> key = {};  // if it has such a limit
  std::vector<std::string> notes = {};  // of the preparation, for the first SUBMIT (Prepared)
};

/// Why a request was refused, with helpful numbers; -1 = does not apply.
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

/// D→C: the answer to a message that was refused.
struct Refused {
  std::uint64_t tag = 0;
  Refusal refusal;
};

/// C→D. Streams events of an existing request from `from[choice]` on (absent = 0). Found by
/// request_id, or by (tenant, idem_key). Answer: ATTACHED, then EVENTs and one FIN; or REFUSED
/// (not_found). At most `window` tokens are in flight beyond the last CREDIT.
struct Attach {
  std::uint64_t tag = 0;
  std::string request_id;
  std::string tenant;
  std::string idem_key;
  std::vector<std::int64_t> from;
  std::int64_t window = 1024;
};
/// D→C: the answer to ATTACH, before its events.
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
/// C→D: ends the attachment with this tag. Not answered.
struct Detach {
  std::uint64_t tag = 0;
  std::string request_id;
  bool for_good = false;  // the client does not come back: OnDisconnect::kCancel acts at once
};
/// D→C: committed tokens of a choice. `bytes` is the concatenation of the tokens' bytes (a token
/// may end inside a UTF-8 sequence), `ends[i]` is the end of token i in it.
struct Event : TokenRun {
  std::uint64_t tag = 0;  // of the ATTACH
  std::string request_id;
  std::int32_t choice = 0;
  std::string bytes;
  std::vector<std::uint32_t> ends;
  // Per token the name of a control token, which is no text of the answer; empty when there are
  // none.
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
/// C→D. Found by request_id, or by (tenant, idem_key). Answer: STATUS_REPLY or REFUSED.
struct StatusQuery {
  std::uint64_t tag = 0;
  std::string request_id;
  std::string tenant;
  std::string idem_key;
};
/// D→C: the answer to STATUS and CANCEL.
struct StatusReply {
  std::uint64_t tag = 0;
  RequestInfo info;
};
/// C→D. Answer: MODELS_REPLY.
struct ModelsQuery {
  std::uint64_t tag = 0;
};
/// A model or alias of the registry.
struct ModelInfo {
  std::string name;
  std::string sha;
  std::string architecture;
  std::string state;  // registered, placing, loading, warming, ready, draining, unloaded, failed
  std::int64_t context = 0;
  std::int64_t created_ms = 0;
  bool chat = false;
  std::string output;  // format of reasoning and calls: chat::read_output
  std::string reason;
  std::string alias_of;  // of an alias: "MODEL=WEIGHT,…"; other fields are its first target's
  bool encoder = false;  // makes vectors alone
};
/// D→C: the answer to MODELS.
struct ModelsReply {
  std::uint64_t tag = 0;
  std::vector<ModelInfo> models;
};
/// Any peer to any peer: the answer to PING repeats the tag.
struct Ping {
  std::uint64_t tag = 0;
};
/// Any peer to any peer: the answer to PING.
struct Pong {
  std::uint64_t tag = 0;
  std::int64_t message_bytes = 0;  // of the daemon: its longest accepted frame; 0 = not stated
};

// ---------------------------------------------------------------- operator <-> daemon

/// O→D. `verb` is the CLI's ("models.add", "requests.cancel", "queue.stats", "status", …), `args` a
/// JSON object. schema/protocol.md has the table of verbs.
struct Op {
  std::uint64_t tag = 0;
  std::string verb;
  std::string args;
  std::string tenant;  // of the caller: few verbs, for its own objects alone; empty = an operator
  bool from_network = false;  // the operator is remote: some verbs are local only
  std::string bytes;          // content that `args` describes: not text, so not in it
};
/// D→O: the answer to OP.
struct OpResult {
  std::uint64_t tag = 0;
  bool ok = false;
  Refusal refusal;     // when !ok
  std::string result;  // JSON, when ok
  std::string bytes;   // content that `result` describes
};

// ---------------------------------------------------------------- worker <-> daemon

/// A choice that the worker has when it greets.
struct ActiveItem {
  std::string request_id;
  std::int32_t choice = 0;
  Fence fence;
  std::int64_t first_unacked = 0;
  std::int64_t next_index = 0;
  bool finished = false;  // its last token and finish reason are in the ring
};
struct MemoryReport {  // bytes on the worker's device
  std::int64_t total = 0;
  std::int64_t free = 0;
  std::int64_t weights = 0;
  std::int64_t kv = 0;
  std::int64_t scratch = 0;
  std::int64_t rss = 0;
  std::int64_t taken = 0;         // measured growth of the process with a load; 0 = not measured
  std::int64_t at_us = 0;         // time of that on the machine's monotonic clock; 0 = unknown
  std::vector<MemoryPool> pools;  // that its loads use, the newest numbers
};
/// The capacity of a loaded model. The daemon computes credits from these numbers.
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
  std::string identity;  // of the file that was loaded (huggingface::Stamp); empty = unknown
};
/// W→D, first message on every connection. A new process has a new `incarnation`.
struct Hello {
  std::string worker_key;
  std::string incarnation;
  std::int64_t pid = 0;
  /// Start of the process in clock ticks since the boot of the host (/proc/PID/stat). With the pid
  /// it identifies one process for good. 0: not stated.
  std::int64_t started_ticks = 0;
  std::string host;
  std::string device;   // "cpu", "opencl:0", …
  std::string kernels;  // family in use
  std::int32_t threads = 0;
  std::string engine;  // "model" | "fake"
  MemoryReport memory;
  std::vector<LoadedModel> models;
  std::vector<ActiveItem> active;
  std::uint64_t last_epoch = 0;
  /// Start of the numerics classes whose bound requests are all that this worker takes
  /// ("cpu/avx512/r3"). Empty: it takes everything.
  std::string only_class = {};
};
/// D→W: the answer to HELLO.
struct Welcome {
  std::uint64_t epoch = 0;
  std::string worker_id;
  /// The daemon took this worker for lost while its connection lived: it must say HELLO again.
  bool greet_again = false;
};
/// D→W: continue this choice, stamp its ring with `fence`; tokens below ack_upto are committed.
struct Adopt {
  std::string request_id;
  std::int32_t choice = 0;
  Fence fence;
  std::int64_t ack_upto = 0;
};
/// D→W: forget a choice.
struct Drop {
  std::string request_id;
  std::int32_t choice = 0;
  std::string reason;
};
/// D→W: load a model.
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
  std::string identity;            // huggingface::Stamp: if another one, the SHA-256 is checked
  std::int64_t bytes = 0;          // reserved for it
};
/// D→W: unload a model.
struct Unload {
  std::string load_id;
};
/// W→D: a load changed its state (or its memory). The daemon decides on the consequences.
struct StateReport {
  LoadedModel model;
};
/// D→W: run a choice.
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
  /// At most 16 bytes: sequences share pages of the prefix cache only with those of the same value.
  std::string prefix_root;
};
/// New tokens of one choice, and perhaps its end.
struct TokenEvent : TokenRun {
  std::string request_id;
  std::int32_t choice = 0;
  Fence fence;
  FinishReason finish = FinishReason::kNone;  // after the last of ids
  std::string error_code;
  std::string error;
  /// The prompt's tokens from the worker's prefix cache, in the first event of a dispatch.
  std::optional<std::int64_t> cached_tokens = {};
};
/// W→D: the results of one engine step, all sequences together.
struct Tokens {
  std::uint64_t step = 0;
  std::vector<TokenEvent> events;
};
/// The committed tokens of one choice.
struct AckItem {
  std::string request_id;
  std::int32_t choice = 0;
  Fence fence;
  std::int64_t upto = 0;
  bool finished = false;  // the finish is committed: forget this choice
};
/// D→W: cumulative acknowledgements, after the commit.
struct Ack {
  std::vector<AckItem> items;
};
/// D→W: cancel a choice.
struct CancelWork {
  std::string request_id;
  std::int32_t choice = 0;
  Fence fence;
};
/// W→D: this dispatch was not accepted or is returned (no pages, stale load, draining, preempted
/// for good). No blame; dispatched again elsewhere or later.
struct Returned {
  std::string request_id;
  std::int32_t choice = 0;
  Fence fence;
  std::string reason;
};
/// D→W: take no new work (`resume`: take it again). W→D: the worker was told to end and takes no
/// new work.
struct Drain {
  bool resume = false;
};
/// W→D: draining is done, no work is left.
struct Drained {};
/// W→D, every second and after each load: what is in use now.
struct WorkerStats {
  MemoryReport memory;
  std::int32_t running = 0;
  std::int32_t pages_used = 0;
  std::uint64_t steps = 0;
  std::uint64_t tokens = 0;
  std::uint64_t prefill_tokens = 0;         // of prompts, and of tokens committed earlier
  std::uint64_t preemptions = 0;            // a sequence returned its pages and starts again
  std::uint64_t draft_tokens = 0;           // proposed and computed
  std::uint64_t accepted_draft_tokens = 0;  // accepted ones of these
  std::uint64_t allocations = 0;            // device + engine allocations since start
  double step_ms = 0;                       // recent mean
};

// ---------------------------------------------------------------- ingress <-> daemon

/// I→D, first message on every connection.
struct IngressHello {
  std::int64_t pid = 0;
};
/// Options of a request that a profile may give.
struct GenerationOptions {
  Sampling sampling;
  std::vector<std::string> stops;
  std::optional<std::int64_t> max_tokens;
  std::optional<std::vector<std::string>> given;  // Submit::given
  bool seed_given = false;
  /// The bound of a profile, without max_tokens: where the context leaves fewer, these.
  std::optional<std::int64_t> most_tokens;
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
  bool names = false;         // `text` has the special tokens of ids by their names
  std::string profile;        // of the model's name (shared/profile/profile.h); empty: none
  std::optional<GenerationOptions> options;  // of a request, where the profile may give some
};
/// I→D: the answer to PREPARE.
struct Prepared {
  std::uint64_t job = 0;
  bool ok = false;
  Refusal refusal;
  std::vector<std::vector<TokenId>> ids;
  std::vector<std::string> text;             // the rendered prompts, when echo
  bool embedding = false;                    // `extra` requests the vector of each prompt, not text
  std::vector<std::string> notes;            // changes to messages that made them fit the template
  std::optional<GenerationOptions> options;  // with those of the profile
};
/// I→D, and the answer: the model's tokenizer as a GGUF without tensors.
struct NeedTokenizer {
  std::string model_sha;
};
/// D→I: the answer to NEED_TOKENIZER.
struct TokenizerBlob {
  std::string model_sha;
  std::string blob;  // empty: unknown model
};
/// D→I: read a model file (in a sandboxed child). Answer: INSPECTED.
struct Inspect {
  std::uint64_t job = 0;
  std::string path;
  std::string roots;  // "DIR:DIR…": the file must lie below one, links followed; empty: anywhere
  std::string profile;  // is checked too (shared/profile/profile.h); empty: none
};
/// I→D: the answer to INSPECT.
struct Inspected {
  std::uint64_t job = 0;
  bool ok = false;
  Refusal refusal;
  std::string model_sha;  // SHA-256 of the file, hex
  std::int64_t size = 0;
  std::int64_t mtime_ns = 0;
  std::string shape;          // JSON: plan::ModelShape
  std::string tokenizer;      // GGUF without tensors
  std::string detokenizer;    // text::encode_detokenizer_table: the bytes of every token
  std::string output;         // chat::describe_output of its chat template
  std::string identity;       // huggingface::Stamp
  bool has_template = false;  // the file's own or the profile's
};

// ---------------------------------------------------------------- standby <-> daemon

/// S→D: send me the database, all of it and from then on what changes. Answer: SHIP.
struct StandbyHello {
  std::string url;         // where others reach this machine once it is the primary
  std::uint64_t term = 0;  // the highest that it has met: a daemon of a lower term must end
};
/// The meaning of a SHIP.
enum class ShipKind : std::uint8_t {
  kChanges,   // changes of the files
  kBegin,     // a new copy begins: what was sent before is not part of it
  kComplete,  // the copy has everything, up to here
  kTakeOver,  // nothing comes any more: be the primary
};
/// D→S: changes of the database's files (control/replication/change_list.h), in the order of the
/// writes.
struct Ship {
  std::uint64_t term = 0;
  std::uint64_t number = 0;  // one more than the one before
  ShipKind kind = ShipKind::kChanges;
  bool in_step = false;  // the standby is a full copy, and answers wait for it
  bool sync = false;     // on its disk, before it is answered
  std::string changes;
};
/// S→D: everything up to this number is in the standby's files.
struct Shipped {
  std::uint64_t term = 0;
  std::uint64_t number = 0;
};

using Message =
    std::variant<Submit, Accepted, Refused, Attach, Attached, Credit, Detach, Event, Fin, Cancel,
                 StatusQuery, StatusReply, ModelsQuery, ModelsReply, Ping, Pong, Op, OpResult,
                 Hello, Welcome, Adopt, Drop, Load, Unload, StateReport, Dispatch, Tokens, Ack,
                 CancelWork, Returned, Drain, Drained, WorkerStats, IngressHello, Prepare, Prepared,
                 NeedTokenizer, TokenizerBlob, Inspect, Inspected, StandbyHello, Ship, Shipped>;

}  // namespace holdfast::wire
