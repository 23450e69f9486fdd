#include "control/daemon/commit_loop.h"

#include "control/core/admission.h"
#include "control/daemon/commit_points.h"
#include "control/daemon/prefix_root.h"
#include "shared/base/crash_point.h"

namespace holdfast::daemon {
namespace {

constexpr std::int64_t kCheckDiskSpaceBytes = 1 << 20;
constexpr std::int64_t kSweepUs = 1'000'000;
constexpr std::int64_t kSweepAgainUs = 20'000;
constexpr std::int64_t kSweepRows = 200;

/// The RequestInfo of a message that has one.
wire::RequestInfo* info_of(wire::Message& message) {
  if (auto* m = std::get_if<wire::Accepted>(&message)) return &m->info;
  if (auto* m = std::get_if<wire::Attached>(&message)) return &m->info;
  if (auto* m = std::get_if<wire::StatusReply>(&message)) return &m->info;
  if (auto* m = std::get_if<wire::Fin>(&message)) return &m->info;
  return nullptr;
}

/// Returns true if the message is of one of the types that the variant holds, and moves it there.
template <class Variant, class... Types>
bool take(wire::Message& message, Variant& into) {
  bool taken = false;
  (..., [&] {
    if (auto* m = std::get_if<Types>(&message)) {
      into = std::move(*m);
      taken = true;
    }
  }());
  return taken;
}

}  // namespace

Result<Released> CommitLoop::boot(std::vector<core::ConfigImport> imports) {
  // Before the first peer: no fence of an earlier process can be current again.
  HOLDFAST_TRY(const std::uint64_t epoch, store_.raise_epoch(host_.now().wall_ms));
  crash_point(CrashPoint::kDaemonStartEpoch);
  HOLDFAST_TRY(const auto versions, store_.config_versions());
  const core::Config config =
      core::startup_config(machine_.config_history().base(), versions, imports);
  HOLDFAST_TRY(core::Boot boot, store_.load(config.queue_read_requests,
                                            host_.now().wall_ms - core::ApiKeyLimiter::kWindowMs));
  HOLDFAST_CHECKED(objects_.boot());
  HOLDFAST_TRY(prefix_secret_, store_.secret("prefix"));
  crash_point(CrashPoint::kDaemonStartLoaded);
  queue_unread_ = boot.unread > 0;
  boot.epoch = epoch;
  boot.imports = std::move(imports);
  step(std::move(boot));
  HOLDFAST_TRY(const Commit commit, this->commit());
  if (commit == Commit::kDiskFull)
    return Error{Errc::kDiskFull, "start: no room for the first group"};
  return release();
}

void CommitLoop::step(const core::Event& event) {
  // Failed sends of the last release are put back first, so that nothing of their streams can
  // overtake them. Most events find none; a new deque for each would be memory allocated and freed.
  if (!again_.empty()) {
    for (const core::Event& before : std::exchange(again_, {})) {
      machine_.step(before, host_.now(), pending_);
    }
  }
  machine_.step(event, host_.now(), pending_);
}

/// Reads a request that a message names: the machine holds only live requests and recent ends.
void CommitLoop::recall(const std::string& id, const std::string& tenant, const std::string& key) {
  const auto read = [this](auto found) {
    if (!found) {
      failure_ = found.error();
    } else if (*found) {
      // The request ended and was forgotten, or its part of the queue has not been read yet.
      step(core::Recall{std::move(**found)});
    }
  };
  if (!id.empty() && !machine_.knows_id(id)) read(store_.find_by_id(id));
  const std::string owner = tenant.empty() ? "default" : tenant;
  if (!key.empty() && !machine_.knows_key(owner, key)) read(store_.find_by_key(owner, key));
}

/// Stops admission once the submissions of this group could fill the disk: the daemon checks the
/// disk each second, and much can arrive in between. Accepted data is written twice, to the log and
/// to the file.
void CommitLoop::check_disk_space(const wire::Submit& submit) {
  unchecked_bytes_ += core::payload_bytes(submit);
  if (unchecked_bytes_ < kCheckDiskSpaceBytes || machine_.core().storage_low) return;
  const std::int64_t free = store_.disk_free();
  const std::int64_t bound = machine_.config().storage_min_free_bytes;
  if (free - 2 * unchecked_bytes_ < bound) step(core::StorageLevel{true, free});
}

void CommitLoop::submit(core::PeerId peer, wire::Submit&& submit) {
  recall(submit.request_id, submit.tenant, submit.idem_key);
  check_disk_space(submit);
  core::SubmitEvent event;
  event.peer = peer;
  if (submit.body_hash.empty()) event.body_hash = host_.body_hash(submit);
  if (submit.request_id.empty()) event.new_id = host_.new_request_id();
  if (!submit.seed_given) event.new_seed = host_.new_seed();
  event.submit = std::move(submit);
  step(std::move(event));
}

void CommitLoop::from_client(core::PeerId peer, wire::Message& message) {
  if (auto* m = std::get_if<wire::Submit>(&message)) return submit(peer, std::move(*m));
  core::FromClient event;
  event.peer = peer;
  if (!take<decltype(event.message), wire::Attach, wire::Credit, wire::Detach, wire::Cancel,
            wire::StatusQuery, wire::ModelsQuery>(message, event.message)) {
    return;  // not a client's message
  }
  if (const auto* m = std::get_if<wire::Attach>(&event.message)) {
    recall(m->request_id, m->tenant, m->request_id.empty() ? m->idem_key : std::string());
  } else if (const auto* m = std::get_if<wire::StatusQuery>(&event.message)) {
    recall(m->request_id, m->tenant, m->request_id.empty() ? m->idem_key : std::string());
  } else if (const auto* m = std::get_if<wire::Cancel>(&event.message)) {
    recall(m->request_id, m->tenant, {});
  }
  step(std::move(event));
}

void CommitLoop::from_worker(core::PeerId peer, wire::Message& message) {
  core::FromWorker event;
  event.peer = peer;
  if (take<decltype(event.message), wire::Hello, wire::Tokens, wire::Returned, wire::StateReport,
           wire::WorkerStats, wire::Drain, wire::Drained>(message, event.message)) {
    step(std::move(event));
  }
}

void CommitLoop::change_object(core::PeerId peer, const wire::Op& op) {
  const auto done = objects_.change(peer, op, host_.now(), machine_, pending_);
  if (done) return;
  if (done.error().code != Errc::kCorrupt) failure_ = done.error();
  pending_.send(
      peer,
      wire::OpResult{op.tag, false, core::refuse(done.error().code, done.error().what), {}, {}});
}

void CommitLoop::accept_loss(core::PeerId peer, const wire::Op& op) {
  const auto loss = store_.log_loss();
  if (!loss) {
    failure_ = loss.error();
    return;
  }
  if (*loss) {
    core::InsertTransition row;
    row.subject = "database";
    row.key = "log";
    row.from = "lost";
    row.to = "accepted";
    row.at_ms = host_.now().wall_ms;
    row.reason = std::to_string((*loss)->expected - (*loss)->found) + " synced groups";
    pending_.write(std::move(row), core::Durability::kFull);
    pending_.write(core::PutFlag{store::kLogLostFlag, ""}, core::Durability::kFull);
  }
  const char* document = *loss ? R"({"accepted":true})" : R"({"accepted":false})";
  pending_.send(peer, wire::OpResult{op.tag, true, {}, document, {}});
}

void CommitLoop::operate(const core::Event& event) {
  if (const std::string* id = core::request_named_by(event)) recall(*id, {}, {});
  step(event);
}

/// Steps the next page of a long queue; peers are served between pages.
void CommitLoop::read_queue() {
  auto page = store_.load_queue_page(machine_.config().queue_read_requests);
  if (!page) {
    failure_ = page.error();
    return;
  }
  queue_unread_ = !page->last;
  step(std::move(*page));
}

/// Looks at a few old requests at a time, oldest first, from the start again at the end; without a
/// pause while there are some to delete.
void CommitLoop::sweep() {
  const std::int64_t now_us = host_.now().mono_us;
  if (now_us - swept_us_ < kSweepUs) return;
  swept_us_ = now_us;
  if (const auto done = objects_.expire(host_.now(), pending_); !done) failure_ = done.error();
  auto rows = store_.oldest(swept_to_, kSweepRows);
  if (!rows) {
    failure_ = rows.error();
    return;
  }
  const std::uint64_t before = machine_.core().counters.retired;
  swept_to_ =
      rows->rows.size() < static_cast<std::size_t>(kSweepRows) ? 0 : rows->rows.back().seq + 1;
  step(std::move(*rows));
  if (machine_.core().counters.retired > before) swept_us_ = now_us - kSweepUs + kSweepAgainUs;
}

void CommitLoop::tick() {
  if (queue_unread_) read_queue();
  sweep();
  const auto deadline = machine_.next_deadline_us();
  const bool due = deadline && *deadline <= host_.now().mono_us;
  if (due || !again_.empty()) step(core::Timer{});
}

Result<CommitLoop::Commit> CommitLoop::commit() {
  if (failure_) return *failure_;
  if (!pending_.rows.empty()) {
    if (crash_points_armed()) pass_commit_points(pending_.rows, true);
    Result<void> done = store_.apply(pending_.rows, pending_.durability);
    if (!done && done.error().code == Errc::kDiskFull) return Commit::kDiskFull;
    if (!done) return done.error();
    if (crash_points_armed()) pass_commit_points(pending_.rows, false);
  }
  machine_.committed();
  unchecked_bytes_ = 0;
  objects_.group_ended();
  return Commit::kDone;
}

Released CommitLoop::release() {
  core::Effects group = std::exchange(pending_, {});
  full_.clear();
  Released released;
  released.notes = std::move(group.notes);
  for (core::Outgoing& out : group.messages) {
    std::visit([&](auto& o) { release_one(o, released); }, out);
    if (failure_) {
      released.failure = failure_;
      return released;
    }
  }
  for (auto& message : released.messages) {
    auto* delivery = std::get_if<Delivery>(&message);
    if (delivery != nullptr) delivery->full = group.durability == core::Durability::kFull;
  }
  stop_reached_ = stop_reached_ || group.stop;
  return released;
}

void CommitLoop::postpone(const Delivery& delivery) {
  if (!delivery.resend) return;
  full_.insert({delivery.to, delivery.resend->tag});
  again_.emplace_back(*delivery.resend);
}

void CommitLoop::release_one(core::SendMessage& out, Released& released) {
  if (wire::RequestInfo* info = info_of(out.message); info != nullptr && info->echo) {
    auto found = store_.find_by_id(info->request_id);
    if (found && *found) {
      auto text = store_.prompt_text((*found)->row.seq);
      if (text) info->prompt_text = std::move(text).value();
    }
  }
  Delivery delivery{out.to, std::move(out.message)};
  if (const auto* fin = std::get_if<wire::Fin>(&delivery.message)) {
    delivery.resend = core::SendFailed{out.to, fin->tag, fin->info.request_id, -1, 0};
  }
  released.messages.emplace_back(std::move(delivery));
}

void CommitLoop::release_one(core::SendDispatch& out, Released& released) {
  if (out.dispatch.prompt_ids.empty()) {
    auto ids = store_.prompt_ids(out.seq, out.prompt);
    if (!ids) {
      // A damaged row costs one request, not the service.
      if (ids.error().code != Errc::kCorrupt) failure_ = ids.error();
      again_.emplace_back(core::RowsDamaged{out.seq, ids.error().what});
      return;
    }
    out.dispatch.prompt_ids = std::move(ids).value();
  }
  if (!prefix_secret_.empty()) {
    out.dispatch.prefix_root = prefix_root(prefix_secret_, out.prefix_scope);
  }
  released.messages.emplace_back(Delivery{out.to, std::move(out.dispatch)});
}

/// Returns the event with its tokens; nullopt if they cannot be read, which is then told.
std::optional<wire::Event> CommitLoop::read_event(core::SendEvent& out, Released& released) {
  wire::Event event;
  event.tag = out.tag;
  event.request_id = out.request_id;
  event.choice = out.choice;
  event.start = out.start;
  if (!out.ids.empty()) {
    event.ids = std::move(out.ids);
    return event;
  }
  auto run = store_.tokens(out.seq, out.choice, out.start, out.until);
  if (run) {
    event.ids = std::move(run->ids);
    event.extra = std::move(run->extra);
    return event;
  }
  released.notes.push_back({true,
                            "stored tokens cannot be read",
                            {{"request", out.request_id}, {"why", run.error().what}}});
  if (run.error().code != Errc::kCorrupt) failure_ = run.error();
  // A live request ends with this; an ended one still gives what can be read.
  again_.emplace_back(core::RowsDamaged{out.seq, run.error().what});
  wire::Refused refused{out.tag, core::refuse(Errc::kCorrupt, run.error().what)};
  released.messages.emplace_back(
      Delivery{out.to, std::move(refused),
               core::SendFailed{out.to, out.tag, out.request_id, out.choice, out.start}});
  return std::nullopt;
}

void CommitLoop::release_one(core::SendEvent& out, Released& released) {
  auto event = read_event(out, released);
  if (!event) return;
  host_.fill_token_bytes(out.model_sha, *event);
  released.messages.emplace_back(
      Delivery{out.to, std::move(*event),
               core::SendFailed{out.to, out.tag, out.request_id, out.choice, out.start}});
}

void CommitLoop::release_one(core::SendOpResult& out, Released& released) {
  released.messages.emplace_back(std::move(out));
}

}  // namespace holdfast::daemon
