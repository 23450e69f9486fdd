// Client messages: attach, credit, cancel, status.
#include <algorithm>

#include "control/core/machine.h"

namespace holdfast::core {
namespace {

constexpr std::int64_t kFinRetentionUs = 1'000'000;

wire::Refusal not_found(const std::string& id) {
  // The same answer for a request that does not exist and for another tenant's.
  return refuse(Errc::kNotFound,
                id.empty() ? std::string("no such request") : "no request with id " + id);
}

}  // namespace

void Machine::on(const FromClient& event) {
  std::visit([&](const auto& m) { client_message(event.peer, m); }, event.message);
}

Request* Machine::find_request(const std::string& id, const std::string& tenant,
                               const std::string& key) {
  Request* request = nullptr;
  if (!id.empty()) {
    request = requests_.by_id(id);
  } else {
    request = requests_.by_key(tenant.empty() ? "default" : tenant, key);
  }
  // Another tenant's request does not exist for this one.
  const bool other = request != nullptr && !tenant.empty() && request->row.tenant != tenant;
  if (other) return nullptr;
  return request;
}

void Machine::client_message(PeerId peer, const wire::Attach& m) {
  Request* request = find_request(m.request_id, m.tenant, m.idem_key);
  if (request == nullptr) {
    out_->send(peer, wire::Refused{m.tag, not_found(m.request_id)});
    return;
  }
  const std::size_t choices = request->choices.size();
  const bool in_range =
      m.from.size() <= choices && m.window > 0 &&
      std::all_of(m.from.begin(), m.from.end(), [](std::int64_t from) { return from >= 0; });
  if (!in_range) {
    out_->send(peer, wire::Refused{m.tag, refuse(Errc::kInvalidRequest,
                                                 "attach: expected a window above 0 and at most " +
                                                     std::to_string(choices) +
                                                     " start indices of 0 or more")});
    return;
  }
  Subscription sub;
  sub.peer = peer;
  sub.tag = m.tag;
  sub.seq = request->row.seq;
  sub.next = m.from;
  sub.next.resize(choices, 0);
  sub.credited = sub.next;
  sub.window = std::min(m.window, config_.streams_max_window);
  unsubscribe(streams_.remove(peer, m.tag));
  ++request->subscribers;
  Subscription& in = streams_.add(std::move(sub));
  out_->send(peer, wire::Attached{m.tag, info(*request)});
  pump_one(in, *request);
}

/// Counts a reader less. To be called with the request of each subscription that went away; 0 is
/// ignored. `for_good`: its client does not come back.
void Machine::unsubscribe(Seq seq, bool for_good) {
  Request* request = requests_.by_seq(seq);
  if (request == nullptr) return;
  --request->subscribers;
  CHECK(request->subscribers >= 0);
  if (request->subscribers > 0 || request->terminal() ||
      request->row.on_disconnect != wire::OnDisconnect::kCancel) {
    return;
  }
  const std::int64_t grace_ms = for_good ? 0 : config_.requests_disconnect_grace_ms;
  request->orphan_deadline_us = now_.mono_us + grace_ms * 1000;
  timers_.add(request->orphan_deadline_us, TimerKind::kRequest, seq);
}

void Machine::client_message(PeerId peer, const wire::Credit& m) {
  Subscription* sub = streams_.find(peer, m.tag);
  if (sub == nullptr || m.choice < 0 || static_cast<std::size_t>(m.choice) >= sub->next.size())
    return;
  const auto c = static_cast<std::size_t>(m.choice);
  // Credit beyond what was sent would widen the window.
  sub->credited[c] = std::max(sub->credited[c], std::min(m.upto, sub->next[c]));
  if (Request* request = requests_.by_seq(sub->seq)) pump_one(*sub, *request);
}

void Machine::client_message(PeerId peer, const wire::Detach& m) {
  unsubscribe(streams_.remove(peer, m.tag), m.for_good);
}

void Machine::client_message(PeerId peer, const wire::Cancel& m) {
  Request* request = find_request(m.request_id, m.tenant, {});
  if (request != nullptr) {
    cancel_request(*request);
    out_->send(peer, wire::StatusReply{m.tag, info(*request)});
    return;
  }
  const auto pending = pending_by_id_.find(m.request_id);
  const auto is_theirs = [&](std::uint64_t job) {
    const std::string& tenant = jobs_.at(job).submit.submit.tenant;
    return m.tenant.empty() || m.tenant == (tenant.empty() ? "default" : tenant);
  };
  if (pending != pending_by_id_.end() && is_theirs(pending->second)) {
    // Not accepted yet, so nothing was promised: the submission ends here.
    const std::uint64_t job = pending->second;
    answer_refused(jobs_.at(job).waiters,
                   refuse(Errc::kCancelled, "cancelled before it was accepted"));
    end_job(job);
  }
  out_->send(peer, wire::Refused{m.tag, not_found(m.request_id)});
}

/// Cancels a request. Idempotent: a terminal request stays as it is.
void Machine::cancel_request(Request& request) {
  end_request(request, FinishReason::kCancelled, std::string(errc_name(Errc::kCancelled)),
              "cancelled", true);
}

void Machine::client_message(PeerId peer, const wire::StatusQuery& m) {
  const Request* request = find_request(m.request_id, m.tenant, m.idem_key);
  if (request == nullptr) {
    out_->send(peer, wire::Refused{m.tag, not_found(m.request_id)});
  } else {
    out_->send(peer, wire::StatusReply{m.tag, info(*request)});
  }
}

void Machine::client_message(PeerId peer, const wire::ModelsQuery& m) {
  wire::ModelsReply reply;
  reply.tag = m.tag;
  for (const auto& [name, model] : models_) {
    wire::ModelInfo info;
    info.name = name;
    info.sha = model.row.sha;
    info.architecture = model.row.architecture;
    info.state = std::string(model_state_name(model.row.state));
    info.context = model.row.context;
    info.created_ms = model.row.created_ms;
    info.chat = model.row.chat;
    info.output = model.row.output;
    info.reason = model.row.reason;
    reply.models.push_back(std::move(info));
  }
  for (wire::ModelInfo& info : alias_infos()) reply.models.push_back(std::move(info));
  out_->send(peer, std::move(reply));
}

void Machine::pump_request(Request& request) {
  if (request.subscribers == 0) return;
  for (const StreamHub::Key& key : streams_.of_request(request.row.seq)) {
    if (Subscription* sub = streams_.find(key.first, key.second)) pump_one(*sub, request);
  }
}

void Machine::pump_one(Subscription& sub, Request& request) {
  if (sub.stalled_until_us > now_.mono_us) return;
  if (!pump(sub, request, config_, *out_) || sub.fin_sent) return;
  sub.fin_sent = true;
  // A FIN ends the attachment, which stays for a moment in case the socket was full.
  sub.fin_until_us = now_.mono_us + kFinRetentionUs;
  timers_.add(sub.fin_until_us, TimerKind::kFinished, static_cast<std::int64_t>(sub.peer), sub.tag);
  out_->send(sub.peer, wire::Fin{sub.tag, info(request)});
}

void Machine::on(const SendFailed& event) {
  Subscription* sub = streams_.find(event.peer, event.tag);
  if (sub == nullptr) return;
  Request* request = requests_.by_seq(sub->seq);
  if (request == nullptr || request->row.id != event.request_id) return;
  if (event.choice < 0) {
    sub->fin_sent = false;
  } else {
    const auto c = static_cast<std::size_t>(event.choice);
    if (c >= sub->next.size()) return;
    sub->next[c] = std::min(sub->next[c], event.start);
    sub->fin_sent = false;
  }
  sub->stalled_until_us = now_.mono_us + config_.streams_retry_ms * 1000;
  timers_.add(sub->stalled_until_us, TimerKind::kStalled, static_cast<std::int64_t>(sub->peer),
              sub->tag);
}

}  // namespace holdfast::core
