#include "control/link/offline.h"

#include <unistd.h>

#include <algorithm>

#include "control/link/db_documents.h"
#include "control/link/state_dir.h"
#include "control/store/backup.h"

namespace holdfast::link {
namespace {

constexpr core::PeerId kOperator = 1;

bool needs_a_daemon(const std::string& verb) {
  constexpr const char* kVerbs[] = {"models.add", "models.load", "shutdown", "workers.drain",
                                    "supervisor.worker_exit"};
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

/// A machine on the database, with nobody connected.
class LoneMachine {
 public:
  explicit LoneMachine(const Clock& clock) : clock_(clock), machine_(core::Config{}) {}

  Result<void> open(const std::string& state_dir) {
    HF_CHECKED(prepare_state_dir(state_dir));
    store::OpenOptions options;
    options.state_dir = state_dir;
    options.role = "cli";
    HF_TRY(store_, store::Store::open(options));
    HF_TRY(const std::uint64_t epoch, store_->raise_epoch(clock_.wall_ms()));
    HF_TRY(core::Boot boot, store_->load());
    boot.epoch = epoch;
    return step(std::move(boot));
  }

  /// One event, committed. What the machine would send goes nowhere: nobody is connected.
  Result<void> step(const core::Event& event) {
    effects_ = machine_.step(event, {clock_.monotonic_us(), clock_.wall_ms()});
    if (!effects_.rows.empty()) HF_CHECKED(store_->apply(effects_.rows, effects_.durability));
    machine_.committed();
    return {};
  }

  Result<void> recall(const std::string& id) {
    if (machine_.knows_id(id)) return {};
    HF_TRY(auto found, store_->find_by_id(id));
    if (!found) return {};
    return step(core::Recall{std::move(*found)});
  }

  Result<OfflineAnswer> carry_out(const wire::Op& op) {
    OpAction action = read_op(kOperator, op);
    if (auto* refusal = std::get_if<wire::Refusal>(&action)) return refused(std::move(*refusal));
    if (const auto* question = std::get_if<Deferred>(&action)) {
      return render(question->verb, question->args);
    }
    const auto& event = std::get<core::Event>(action);
    if (const std::string* id = core::request_named_by(event)) HF_CHECKED(recall(*id));
    HF_CHECKED(step(event));
    for (const core::Outgoing& out : effects_.messages) {
      const auto* result = std::get_if<core::SendOpResult>(&out);
      if (result == nullptr || result->to != kOperator) continue;
      return result->ok ? render(result->verb, result->key) : refused(result->refusal);
    }
    return Error{Errc::kInternal, op.verb + ": the machine gave no answer"};
  }

  Result<OfflineAnswer> backup(const std::string& path) {
    HF_TRY(auto backup, store_->begin_backup(path));
    for (;;) {
      HF_TRY(const bool done, backup->step());
      if (done) return answer_with(backup_document(backup->report()));
    }
  }

  Result<void> close() { return store_->checkpoint_all(); }

 private:
  OfflineAnswer render(const std::string& verb, const std::string& key) {
    ProcessFacts facts;
    facts.pid = getpid();
    auto text = render_op(verb, key, machine_, *store_, facts);
    if (!text) return refused(core::refuse(text.error().code, text.error().what));
    return answer_with(std::move(text).value());
  }

  const Clock& clock_;
  std::unique_ptr<store::Store> store_;
  core::Machine machine_;
  core::Effects effects_;
};

/// Verbs on files that no machine boots from. db.check without a path takes the lock: the daemon's
/// own file is read only while nobody writes to it.
Result<OfflineAnswer> on_files(const std::string& state_dir, const Clock& clock,
                               const wire::Op& op) {
  HF_TRY(const std::string path, path_argument(op));
  if (op.verb == "db.restore") {
    HF_CHECKED(prepare_state_dir(state_dir));
    HF_TRY(const store::RestoreReport report,
           store::restore_file(state_dir, path, clock.wall_ms()));
    return answer_with(restore_document(report));
  }
  if (!path.empty()) {
    HF_TRY(const store::CheckReport report, store::check_file(path));
    return answer_with(check_document(path, report));
  }
  HF_TRY(const store::StateLock lock, store::StateLock::acquire(state_dir, "cli"));
  HF_TRY(const store::CheckReport report, store::check_file(state_dir + "/control.db"));
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
  LoneMachine machine(clock);
  HF_CHECKED(machine.open(state_dir));
  if (op.verb == "db.backup") {
    HF_TRY(const std::string path, path_argument(op));
    return machine.backup(path);
  }
  HF_TRY(OfflineAnswer answer, machine.carry_out(op));
  HF_CHECKED(machine.close());
  return answer;
}

}  // namespace holdfast::link
