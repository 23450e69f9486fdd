// Turns effects into messages, after the commit that justifies them.
#include "control/daemon/daemon.h"

#include <algorithm>

#include "control/core/admission.h"
#include "control/endpoints/names.h"
#include "control/endpoints/peer_rights.h"
#include "control/operator/db_documents.h"
#include "shared/base/crash_point.h"
#include "shared/base/log_fields.h"
#include "shared/wire/frame.h"

namespace holdfast::daemon {
namespace {

constexpr std::int64_t kCopyRangeBytesMax = 512 << 10;

/// Passes the crash point of a message that has left.
void pass_sent_point(const wire::Message& message) {
  if (std::holds_alternative<wire::Accepted>(message)) {
    crash_point(CrashPoint::kDaemonSentAccepted);
  } else if (std::holds_alternative<wire::Adopt>(message)) {
    crash_point(CrashPoint::kDaemonSentAdopt);
  } else if (std::holds_alternative<wire::Dispatch>(message)) {
    crash_point(CrashPoint::kDaemonSentDispatch);
  } else if (std::holds_alternative<wire::Event>(message)) {
    crash_point(CrashPoint::kDaemonSentEvent);
  } else if (std::holds_alternative<wire::Ack>(message)) {
    crash_point(CrashPoint::kDaemonSentAck);
  } else if (std::holds_alternative<wire::Fin>(message)) {
    crash_point(CrashPoint::kDaemonSentFin);
  } else if (std::holds_alternative<wire::Refused>(message)) {
    crash_point(CrashPoint::kDaemonSentRefused);
  }
}

/// True for what the commit loop sends again when a peer's socket was full.
bool is_part_of_stream(const wire::Message& message) {
  return std::holds_alternative<wire::Event>(message) || std::holds_alternative<wire::Fin>(message);
}

void write_note(const core::Note& note) {
  std::vector<log::Field> fields;
  for (const auto& [key, value] : note.fields) fields.emplace_back(key, value);
  log::write_fields(note.alarm ? log::Level::kWarn : log::Level::kInfo, note.event, fields);
}

}  // namespace

Result<void> Daemon::deliver(const Released& released) {
  for (const core::Note& note : released.notes) write_note(note);
  for (const auto& message : released.messages) {
    std::visit([this](const auto& m) { deliver_one(m); }, message);
  }
  if (released.failure) return *released.failure;
  return {};
}

void Daemon::deliver_one(const Delivery& delivery) {
  if (primary_ && held_answers_.take(delivery, !primary_->may_answer())) return;
  commit_loop_->pass_on(delivery, [this](core::PeerId to, const wire::Message& message) {
    return send(to, message);
  });
}

void Daemon::deliver_one(const core::SendOpResult& result) {
  if (primary_ && held_answers_.take(result, !primary_->may_answer())) return;
  if (result.ok) {
    answer_op(result.to, result.tag, result.verb, result.key);
  } else {
    (void)send(result.to, wire::OpResult{result.tag, false, result.refusal, {}, {}});
  }
}

Result<void> Daemon::release() {
  release_held();
  HOLDFAST_CHECKED(deliver(commit_loop_->release()));
  for (const Deferral& d : std::exchange(deferred_, {})) {
    answer_op(d.peer, d.tag, d.verb, d.args, d.tenant);
  }
  outbox_waits_ = false;
  for (RouterEndpoint& router : routers_) {
    outbox_waits_ = router.flush() || outbox_waits_;
    for (const core::PeerId peer : router.take_gone()) {
      roles_.erase(peer);
      gone_.push_back(peer);
    }
  }
  return {};
}

/// Encodes a message; without what its receiver may not see, if that is a client elsewhere.
std::string Daemon::encode_for(const RouterEndpoint& router, core::PeerId to,
                               const wire::Message& message) const {
  if (router.role() == Role::kElsewhere && std::holds_alternative<wire::ModelsReply>(message)) {
    const client::PeerKey* key = peer_keys_.find(router.user_of(to), clock_.wall_ms());
    if (key == nullptr || key->role == client::PeerRole::kClient) {
      wire::Message hidden = message;
      hide_from_client(hidden);
      return wire::encode(hidden);
    }
  }
  return wire::encode(message);
}

wire::SendStatus Daemon::send(core::PeerId to, const wire::Message& message) {
  const auto role = roles_.find(to);
  if (role == roles_.end()) return wire::SendStatus::kGone;
  // The parts of a client's stream wait where they are; an answer waits in the outbox, as nobody
  // asks for it again.
  const bool client = role->second == Role::kClient || role->second == Role::kElsewhere;
  const bool repeated = client && is_part_of_stream(message);
  RouterEndpoint& router = routers_[static_cast<std::size_t>(role->second)];
  const std::string frame = encode_for(router, to, message);
  const wire::SendStatus status = router.send(to, frame, repeated);
  if (status != wire::SendStatus::kFull && crash_points_armed()) pass_sent_point(message);
  return status;
}

void Daemon::fill_token_bytes(const std::string& model_sha, wire::Event& event) {
  detokenizers_->fill(model_sha, event);
}

std::string Daemon::new_request_id() {
  return daemon::new_request_id(clock_.wall_ms());
}

std::uint64_t Daemon::new_seed() {
  return random_u64();
}

std::string Daemon::body_hash(wire::Submit& submit) {
  return daemon::body_hash(submit);
}

void Daemon::begin_backup(core::PeerId peer, const wire::Op& op) {
  const auto refuse = [&](const Error& error) {
    (void)send(peer, wire::OpResult{op.tag, false, core::refuse(error.code, error.what), {}, {}});
  };
  const auto path = path_argument(op);
  if (!path) return refuse(path.error());
  auto backup = store_->begin_backup(path.value());
  if (!backup) return refuse(backup.error());
  backups_.push_back({peer, op.tag, std::move(backup).value()});
}

/// Lets operators elsewhere take a copy. An answer takes no more than a client's message, so that
/// the next one waits behind little.
void Daemon::open_outgoing_copy() {
  OutgoingCopyOptions copy;
  copy.state_dir = options_.state_dir;
  copy.range_bytes_max = std::min(kCopyRangeBytesMax, client_message_bytes_ / 2);
  copy.wake = [this] { wake_.notify(); };
  copy.send = [this](core::PeerId to, const wire::Message& message) { (void)send(to, message); };
  outgoing_copy_ = std::make_unique<OutgoingCopy>(std::move(copy), *store_);
}

void Daemon::step_backups() {
  for (std::size_t i = 0; i < backups_.size();) {
    BackupJob& job = backups_[i];
    const Result<bool> done = job.backup->step();
    if (done && !*done) {
      ++i;
      continue;
    }
    wire::OpResult answer{job.tag, done.has_value(), {}, {}, {}};
    if (done) {
      answer.result = backup_document(job.backup->report());
    } else {
      answer.refusal = core::refuse(done.error().code, done.error().what);
    }
    (void)send(job.peer, answer);
    backups_.erase(backups_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

void Daemon::answer_op(core::PeerId peer, std::uint64_t tag, const std::string& verb,
                       const std::string& key, const std::string& tenant) {
  const auto refuse = [&](const Error& error) {
    (void)send(peer, wire::OpResult{tag, false, core::refuse(error.code, error.what), {}, {}});
  };
  if (verb == "objects.get") {
    auto reply = Objects::render(verb, key, *store_, tenant);
    if (!reply) return refuse(reply.error());
    (void)send(peer,
               wire::OpResult{tag, true, {}, std::move(reply->document), std::move(reply->bytes)});
    return;
  }
  ProcessFacts now = facts();
  const auto& nodes = commit_loop_->machine().nodes().all();
  if (const auto node = nodes.find(key);
      verb == "node.report" && node_listener_ && node != nodes.end()) {
    now.liveness_session = node_listener_->session(key, node->second.incarnation);
  }
  auto text = render_op(verb, key, commit_loop_->machine(), *store_, now, tenant);
  if (!text) return refuse(text.error());
  (void)send(peer, wire::OpResult{tag, true, {}, std::move(text).value(), {}});
}

}  // namespace holdfast::daemon
