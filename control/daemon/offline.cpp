#include "control/daemon/offline.h"

#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>

#include <nlohmann/json.hpp>

#include "control/core/admission.h"
#include "control/daemon/commit_loop.h"
#include "control/daemon/state_dir.h"
#include "control/endpoints/names.h"
#include "control/operator/db_documents.h"
#include "control/replication/standby_note.h"
#include "control/store/backup.h"
#include "shared/base/json_text.h"

namespace holdfast::daemon {
namespace {

constexpr core::PeerId kOperator = 1;

bool needs_a_daemon(const std::string& verb) {
  constexpr const char* kVerbs[] = {
      "models.add",    "models.load",   "shutdown",    "workers.drain", "supervisor.worker_exit",
      "models.verify", "models.golden", "pulls.start", "pulls.cancel",  "db.copy",
      "db.copy_range", "db.copy_end"};
  return std::any_of(std::begin(kVerbs), std::end(kVerbs),
                     [&](const char* name) { return verb == name; });
}

OfflineAnswer refused(wire::Refusal refusal) {
  OfflineAnswer answer;
  answer.refusal = std::move(refusal);
  return answer;
}

OfflineAnswer answer_with(std::string document) {
  OfflineAnswer answer;
  answer.ok = true;
  answer.document = std::move(document);
  return answer;
}

/// The host of a commit loop without peers: messages are dropped, but for results of verbs.
class OfflineHost final : private CommitLoopHost {
 public:
  explicit OfflineHost(const Clock& clock) : clock_(clock) {}

  Result<void> open(const std::string& state_dir) {
    HOLDFAST_CHECKED(prepare_state_dir(state_dir));
    const auto note = replication::read_standby_note(state_dir);
    if (note && note->is_standby) {
      return Error{Errc::kConflict, state_dir + " is the copy of a standby of " + note->primary +
                                        "; change the database there"};
    }
    store::OpenOptions options;
    options.state_dir = state_dir;
    options.role = "cli";
    HOLDFAST_TRY(store_, store::Store::open(options));
    HOLDFAST_CHECKED(make_secrets(*store_));
    CommitLoopHost& host = *this;
    commit_loop_ = std::make_unique<CommitLoop>(core::Config{}, *store_, host);
    HOLDFAST_TRY(Released released, commit_loop_->boot());
    HOLDFAST_CHECKED(take(std::move(released)));
    while (commit_loop_->has_pending_work()) {
      commit_loop_->tick();
      HOLDFAST_CHECKED(write());
    }
    return {};
  }

  Result<OfflineAnswer> carry_out(const wire::Op& op) {
    if (op.verb == "db.accept_loss") {
      commit_loop_->accept_loss(kOperator, op);
      HOLDFAST_CHECKED(write());
      return answer_with(sent_);
    }
    OpAction action = read_op(kOperator, op);
    if (auto* refusal = std::get_if<wire::Refusal>(&action)) return refused(std::move(*refusal));
    if (const auto* question = std::get_if<Deferred>(&action)) {
      return render(question->verb, question->args);
    }
    commit_loop_->operate(std::get<core::Event>(action));
    HOLDFAST_CHECKED(write());
    if (!answer_) return Error{Errc::kInternal, op.verb + ": the machine gave no answer"};
    if (!answer_->ok) return refused(answer_->refusal);
    return render(answer_->verb, answer_->key);
  }

  Result<OfflineAnswer> backup(const std::string& path) {
    HOLDFAST_TRY(auto backup, store_->begin_backup(path));
    for (;;) {
      HOLDFAST_TRY(const bool done, backup->step());
      if (done) return answer_with(backup_document(backup->report()));
    }
  }

  Result<void> close() { return store_->checkpoint_all(); }

 private:
  Result<void> write() {
    HOLDFAST_TRY(const CommitLoop::Commit done, commit_loop_->commit());
    if (done == CommitLoop::Commit::kDiskFull)
      return Error{Errc::kDiskFull, "commit: the disk is full"};
    return take(commit_loop_->release());
  }

  /// Takes the results of verbs; nobody else is there to get a message.
  Result<void> take(Released released) {
    for (auto& message : released.messages) {
      if (auto* result = std::get_if<core::SendOpResult>(&message)) {
        if (result->to == kOperator) answer_ = std::move(*result);
        continue;
      }
      auto& delivery = std::get<Delivery>(message);
      if (const auto* result = std::get_if<wire::OpResult>(&delivery.message)) {
        sent_ = result->result;
      }
    }
    if (released.failure) return *released.failure;
    return {};
  }

  OfflineAnswer render(const std::string& verb, const std::string& key) {
    ProcessFacts facts;
    facts.pid = getpid();
    auto text = render_op(verb, key, commit_loop_->machine(), *store_, facts);
    if (!text) return refused(core::refuse(text.error().code, text.error().what));
    return answer_with(std::move(text).value());
  }

  core::Now now() const override { return {clock_.monotonic_us(), clock_.wall_ms()}; }
  void fill_token_bytes(const std::string&, wire::Event&) override {}
  std::string new_request_id() override { return daemon::new_request_id(clock_.wall_ms()); }
  std::uint64_t new_seed() override { return random_u64(); }
  std::string body_hash(wire::Submit& submit) override { return daemon::body_hash(submit); }

  const Clock& clock_;
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<CommitLoop> commit_loop_;
  std::optional<core::SendOpResult> answer_;
  std::string sent_;  // document of the last result that came by send()
};

/// Returns true for db.check {"repair": true}.
bool wants_repair(const wire::Op& op) {
  const auto args = try_parse_json<nlohmann::json>(op.args);
  return args.is_object() && args.value("repair", nlohmann::json()) == true;
}

/// Runs verbs on files that no machine boots from. db.check without a path takes the lock: the
/// daemon's own file is read only while nobody writes to it.
Result<OfflineAnswer> on_files(const std::string& state_dir, const Clock& clock,
                               const wire::Op& op) {
  HOLDFAST_TRY(const std::string path, path_argument(op));
  if (op.verb == "db.restore") {
    HOLDFAST_CHECKED(prepare_state_dir(state_dir));
    HOLDFAST_TRY(const store::RestoreReport report,
                 store::restore_file(state_dir, path, clock.wall_ms()));
    return answer_with(restore_document(report));
  }
  if (!path.empty()) {
    HOLDFAST_TRY(const store::CheckReport report, store::check_file(path));
    return answer_with(check_document(path, report));
  }
  HOLDFAST_TRY(const store::StateLock lock, store::StateLock::acquire(state_dir, "cli"));
  HOLDFAST_TRY(store::CheckReport report, store::check_file(state_dir + "/control.db"));
  // Only a file that was found sound gets checksums: a checksum of damage would hide it.
  if (report.unsummed > 0 && wants_repair(op)) {
    HOLDFAST_TRY(const std::int64_t summed, store::sum_old_rows(state_dir + "/control.db"));
    report.unsummed -= summed;
    report.rows += summed;
  }
  return answer_with(check_document(state_dir + "/control.db", report));
}

}  // namespace

Result<OfflineAnswer> operate_offline(const std::string& state_dir, const Clock& clock,
                                      const wire::Op& op) {
  if (needs_a_daemon(op.verb)) {
    return refused(core::refuse(Errc::kUnreachable,
                                op.verb + ": needs a running daemon; start `holdfast serve`"));
  }
  if (op.verb == "db.check" || op.verb == "db.restore") return on_files(state_dir, clock, op);
  OfflineHost host(clock);
  HOLDFAST_CHECKED(host.open(state_dir));
  if (op.verb == "db.backup") {
    HOLDFAST_TRY(const std::string path, path_argument(op));
    return host.backup(path);
  }
  HOLDFAST_TRY(OfflineAnswer answer, host.carry_out(op));
  HOLDFAST_CHECKED(host.close());
  return answer;
}

}  // namespace holdfast::daemon
