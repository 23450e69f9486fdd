// Client messages: attach, credit, cancel, status.
#include "control/core/client_streams.h"

#include <algorithm>
#include <string>
#include <utility>

#include "control/core/admission.h"
#include "control/core/aliases.h"
#include "control/core/ingress_jobs.h"
#include "control/core/lifecycle.h"
#include "control/core/registry.h"

namespace holdfast::core {
namespace {

constexpr std::int64_t kFinRetentionUs = 1'000'000;

wire::Refusal not_found(const std::string& id) {
  // The same answer for a request that does not exist and for another tenant's.
  return refuse(Errc::kNotFound,
                id.empty() ? std::string("no such request") : "no request with id " + id);
}

}  // namespace

void ClientStreams::on(const FromClient& event) {
  std::visit([&](const auto& m) { client_message(event.peer, m); }, event.message);
}

Request* ClientStreams::find_request(const std::string& id, const std::string& tenant,
                                     const std::string& key) {
  Request* request = nullptr;
  if (!id.empty()) {
    request = lifecycle_.requests().by_id(id);
  } else {
    request = lifecycle_.requests().by_key(tenant.empty() ? "default" : tenant, key);
  }
  // Another tenant's request does not exist for this one.
  const bool other = request != nullptr && !tenant.empty() && request->row.tenant != tenant;
  if (other) return nullptr;
  return request;
}

void ClientStreams::client_message(PeerId peer, const wire::Attach& m) {
  Request* request = find_request(m.request_id, m.tenant, m.idem_key);
  if (request == nullptr) {
    core_.out->send(peer, wire::Refused{m.tag, not_found(m.request_id)});
    return;
  }
  const std::size_t choices = request->choices.size();
  const bool in_range =
      m.from.size() <= choices && m.window > 0 &&
      std::all_of(m.from.begin(), m.from.end(), [](std::int64_t from) { return from >= 0; });
  if (!in_range) {
    core_.out->send(
        peer,
        wire::Refused{m.tag, refuse(Errc::kInvalidRequest,
                                    "attach: expected a window above 0 and at most " +
                                        std::to_string(choices) + " start indices of 0 or more")});
    return;
  }
  Subscription sub;
  sub.peer = peer;
  sub.tag = m.tag;
  sub.seq = request->row.seq;
  sub.next = m.from;
  sub.next.resize(choices, 0);
  sub.credited = sub.next;
  sub.window = std::min(m.window, core_.config.streams_max_window);
  unsubscribe(streams_.remove(peer, m.tag));
  ++request->subscribers;
  Subscription& in = streams_.add(std::move(sub));
  core_.out->send(peer, wire::Attached{m.tag, lifecycle_.info(*request)});
  pump_one(in, *request);
}

/// Counts a reader less. To be called with the request of each subscription that went away; 0 is
/// ignored. `for_good`: its client does not come back.
void ClientStreams::unsubscribe(Seq seq, bool for_good) {
  Request* request = lifecycle_.requests().by_seq(seq);
  if (request == nullptr) return;
  --request->subscribers;
  CHECK(request->subscribers >= 0);
  if (request->subscribers > 0 || request->terminal() ||
      request->row.on_disconnect != wire::OnDisconnect::kCancel) {
    return;
  }
  const std::int64_t grace_ms = for_good ? 0 : core_.config.requests_disconnect_grace_ms;
  request->orphan_deadline_us = core_.now.mono_us + grace_ms * 1000;
  core_.timers.add(request->orphan_deadline_us, TimerKind::kRequest, seq);
}

void ClientStreams::client_message(PeerId peer, const wire::Credit& m) {
  Subscription* sub = streams_.find(peer, m.tag);
  if (sub == nullptr || m.choice < 0 || static_cast<std::size_t>(m.choice) >= sub->next.size())
    return;
  const auto c = static_cast<std::size_t>(m.choice);
  // Credit beyond what was sent would widen the window.
  sub->credited[c] = std::max(sub->credited[c], std::min(m.upto, sub->next[c]));
  if (Request* request = lifecycle_.requests().by_seq(sub->seq)) pump_one(*sub, *request);
}

void ClientStreams::client_message(PeerId peer, const wire::Detach& m) {
  unsubscribe(streams_.remove(peer, m.tag), m.for_good);
}

void ClientStreams::client_message(PeerId peer, const wire::Cancel& m) {
  Request* request = find_request(m.request_id, m.tenant, {});
  if (request != nullptr) {
    lifecycle_.cancel_request(*request);
    core_.out->send(peer, wire::StatusReply{m.tag, lifecycle_.info(*request)});
    return;
  }
  jobs_.cancel(m.request_id, m.tenant);
  core_.out->send(peer, wire::Refused{m.tag, not_found(m.request_id)});
}

void ClientStreams::client_message(PeerId peer, const wire::StatusQuery& m) {
  const Request* request = find_request(m.request_id, m.tenant, m.idem_key);
  if (request == nullptr) {
    core_.out->send(peer, wire::Refused{m.tag, not_found(m.request_id)});
  } else {
    core_.out->send(peer, wire::StatusReply{m.tag, lifecycle_.info(*request)});
  }
}

void ClientStreams::client_message(PeerId peer, const wire::ModelsQuery& m) {
  wire::ModelsReply reply;
  reply.tag = m.tag;
  for (const auto& [name, model] : registry_.models()) {
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
    info.encoder = is_encoder(model.row);
    reply.models.push_back(std::move(info));
  }
  for (wire::ModelInfo& info : aliases_.alias_infos()) reply.models.push_back(std::move(info));
  core_.out->send(peer, std::move(reply));
}

void ClientStreams::pump_request(Request& request) {
  if (request.subscribers == 0) return;
  for (const StreamHub::Key& key : streams_.of_request(request.row.seq)) {
    if (Subscription* sub = streams_.find(key.first, key.second)) pump_one(*sub, request);
  }
}

void ClientStreams::pump_one(Subscription& sub, Request& request) {
  if (sub.stalled_until_us > core_.now.mono_us) return;
  if (!pump(sub, request, core_.config, *core_.out) || sub.fin_sent) return;
  sub.fin_sent = true;
  // A FIN ends the attachment, which stays for a moment in case the socket was full.
  sub.fin_until_us = core_.now.mono_us + kFinRetentionUs;
  core_.timers.add(sub.fin_until_us, TimerKind::kFinished, static_cast<std::int64_t>(sub.peer),
                   sub.tag);
  core_.out->send(sub.peer, wire::Fin{sub.tag, lifecycle_.info(request)});
}

void ClientStreams::on(const SendFailed& event) {
  Subscription* sub = streams_.find(event.peer, event.tag);
  if (sub == nullptr) return;
  Request* request = lifecycle_.requests().by_seq(sub->seq);
  if (request == nullptr || request->row.id != event.request_id) return;
  if (event.choice < 0) {
    sub->fin_sent = false;
  } else {
    const auto c = static_cast<std::size_t>(event.choice);
    if (c >= sub->next.size()) return;
    sub->next[c] = std::min(sub->next[c], event.start);
    sub->fin_sent = false;
  }
  sub->stalled_until_us = core_.now.mono_us + core_.config.streams_retry_ms * 1000;
  core_.timers.add(sub->stalled_until_us, TimerKind::kStalled, static_cast<std::int64_t>(sub->peer),
                   sub->tag);
}

void ClientStreams::peer_gone(PeerId peer) {
  for (const Seq seq : streams_.remove_peer(peer)) unsubscribe(seq);
}

void ClientStreams::stall_over(PeerId peer, std::uint64_t tag) {
  Subscription* sub = streams_.find(peer, tag);
  if (sub == nullptr) return;
  Request* request = lifecycle_.requests().by_seq(sub->seq);
  if (request != nullptr) pump_one(*sub, *request);
}

void ClientStreams::fin_over(PeerId peer, std::uint64_t tag) {
  const Subscription* sub = streams_.find(peer, tag);
  // An earlier FIN that came back has left an entry too.
  if (sub != nullptr && sub->fin_sent && sub->fin_until_us <= core_.now.mono_us) {
    unsubscribe(streams_.remove(sub->peer, sub->tag));
  }
}

}  // namespace holdfast::core
