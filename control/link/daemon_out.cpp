// Effects as messages, after the commit that justifies them.
#include "control/link/daemon.h"

#include "control/link/db_documents.h"
#include "shared/base/crash_point.h"
#include "shared/base/log.h"
#include "shared/wire/frame.h"

namespace holdfast::link {
namespace {

/// The RequestInfo of a message that has one.
wire::RequestInfo* info_of(wire::Message& message) {
  if (auto* m = std::get_if<wire::Accepted>(&message)) return &m->info;
  if (auto* m = std::get_if<wire::Attached>(&message)) return &m->info;
  if (auto* m = std::get_if<wire::StatusReply>(&message)) return &m->info;
  if (auto* m = std::get_if<wire::Fin>(&message)) return &m->info;
  return nullptr;
}

/// After a message has left.
void pass_sent_point(const wire::Message& message) {
  if (std::holds_alternative<wire::Accepted>(message)) {
    crash_point(CrashPoint::kDaemonSentAccepted);
  } else if (std::holds_alternative<wire::Adopt>(message)) {
    crash_point(CrashPoint::kDaemonSentAdopt);
  } else if (std::holds_alternative<wire::Ack>(message)) {
    crash_point(CrashPoint::kDaemonSentAck);
  } else if (std::holds_alternative<wire::Fin>(message)) {
    crash_point(CrashPoint::kDaemonSentFin);
  } else if (std::holds_alternative<wire::Refused>(message)) {
    crash_point(CrashPoint::kDaemonSentRefused);
  }
}

void write_note(const core::Note& note) {
  std::string text;
  for (const auto& [key, value] : note.fields) {
    text += (text.empty() ? "" : " ") + key + "=" + value;
  }
  log::write(note.alarm ? log::Level::kWarn : log::Level::kInfo, note.event, {{"detail", text}});
}

}  // namespace

void Daemon::release() {
  core::Effects group = std::exchange(pending_, {});
  full_.clear();
  for (const core::Note& note : group.notes) write_note(note);
  for (core::Outgoing& out : group.messages) {
    std::visit([this](auto& o) { release_one(o); }, out);
    if (failure_) return;
  }
  for (const Deferral& d : std::exchange(deferred_, {})) answer_op(d.peer, d.tag, d.verb, d.args);
  outbox_waits_ = false;
  for (Door& door : doors_) {
    outbox_waits_ = door.flush() || outbox_waits_;
    for (const core::PeerId peer : door.take_gone()) {
      roles_.erase(peer);
      again_.emplace_back(core::PeerGone{peer});
    }
  }
  stopped_ = stopped_ || group.stop;
}

wire::SendStatus Daemon::send(core::PeerId peer, const std::string& frame) {
  const auto role = roles_.find(peer);
  if (role == roles_.end()) return wire::SendStatus::kGone;
  return doors_[static_cast<std::size_t>(role->second)].send(peer, frame);
}

void Daemon::reply(core::PeerId peer, const wire::Message& message) {
  // A client whose socket is full asks again; workers and helpers have an outbox.
  (void)send(peer, wire::encode(message));
}

void Daemon::release_one(core::SendMessage& out) {
  if (wire::RequestInfo* info = info_of(out.message); info != nullptr && info->echo) {
    auto found = store_->find_by_id(info->request_id);
    if (found && *found) {
      auto text = store_->prompt_text((*found)->row.seq);
      if (text) info->prompt_text = std::move(text).value();
    }
  }
  const auto* fin = std::get_if<wire::Fin>(&out.message);
  // Nothing of a stream may pass what could not be sent of it.
  const bool blocked = fin != nullptr && full_.count({out.to, fin->tag}) > 0;
  if (!blocked && send(out.to, wire::encode(out.message)) != wire::SendStatus::kFull) {
    if (crash_points_armed()) pass_sent_point(out.message);
    return;
  }
  if (fin != nullptr) {
    again_.emplace_back(core::SendFailed{out.to, fin->tag, fin->info.request_id, -1, 0});
  }
}

void Daemon::release_one(core::SendDispatch& out) {
  auto ids = store_->prompt_ids(out.seq, out.prompt);
  if (!ids) {
    // A damaged row costs one request, not the service.
    if (ids.error().code != Errc::kCorrupt) failure_ = ids.error();
    again_.emplace_back(core::RowsDamaged{out.seq, ids.error().what});
    return;
  }
  out.dispatch.prompt_ids = std::move(ids).value();
  reply(out.to, std::move(out.dispatch));
  crash_point(CrashPoint::kDaemonSentDispatch);
}

void Daemon::release_one(core::SendEvent& out) {
  wire::Event event;
  event.tag = out.tag;
  event.request_id = out.request_id;
  event.choice = out.choice;
  event.start = out.start;
  if (out.ids.empty()) {
    auto span = store_->tokens(out.seq, out.choice, out.start, out.end);
    if (!span) {
      log::error("stream", {{"request", out.request_id}, {"why", span.error().what}});
      if (span.error().code != Errc::kCorrupt) failure_ = span.error();
      // A live request ends with this; one that has ended keeps what can be read.
      again_.emplace_back(core::RowsDamaged{out.seq, span.error().what});
      reply(out.to, wire::Refused{out.tag, core::refuse(Errc::kCorrupt, span.error().what)});
      return;
    }
    event.ids = std::move(span->ids);
    event.extra = std::move(span->extra);
  } else {
    event.ids = std::move(out.ids);
  }
  pieces_->fill(out.model_sha, event);
  const bool blocked = full_.count({out.to, out.tag}) > 0;
  if (blocked || send(out.to, wire::encode(event)) == wire::SendStatus::kFull) {
    full_.insert({out.to, out.tag});
    again_.emplace_back(core::SendFailed{out.to, out.tag, out.request_id, out.choice, out.start});
    return;
  }
  crash_point(CrashPoint::kDaemonSentEvent);
}

void Daemon::release_one(core::SendOpResult& out) {
  if (out.ok) {
    answer_op(out.to, out.tag, out.verb, out.key);
  } else {
    reply(out.to, wire::OpResult{out.tag, false, out.refusal, {}});
  }
}

void Daemon::begin_backup(core::PeerId peer, const wire::Op& op) {
  const auto refuse = [&](const Error& error) {
    reply(peer, wire::OpResult{op.tag, false, core::refuse(error.code, error.what), {}});
  };
  const auto path = path_argument(op);
  if (!path) return refuse(path.error());
  auto backup = store_->begin_backup(path.value());
  if (!backup) return refuse(backup.error());
  backups_.push_back({peer, op.tag, std::move(backup).value()});
}

void Daemon::step_backups() {
  for (std::size_t i = 0; i < backups_.size();) {
    BackupJob& job = backups_[i];
    const Result<bool> done = job.backup->step();
    if (done && !*done) {
      ++i;
      continue;
    }
    wire::OpResult answer{job.tag, done.has_value(), {}, {}};
    if (done) {
      answer.result = backup_document(job.backup->report());
    } else {
      answer.refusal = core::refuse(done.error().code, done.error().what);
    }
    reply(job.peer, answer);
    backups_.erase(backups_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

void Daemon::answer_op(core::PeerId peer, std::uint64_t tag, const std::string& verb,
                       const std::string& key) {
  auto text = render_op(verb, key, machine_, *store_, facts());
  if (text) {
    reply(peer, wire::OpResult{tag, true, {}, std::move(text).value()});
  } else {
    reply(peer, wire::OpResult{tag, false, core::refuse(text.error().code, text.error().what), {}});
  }
}

}  // namespace holdfast::link
