// Messages of peers as events of the machine.
#include <unistd.h>

#include <algorithm>

#include "control/link/daemon.h"
#include "control/link/names.h"
#include "control/link/peer_role.h"
#include "shared/base/log.h"
#include "shared/plan/plan.h"

namespace holdfast::link {

void Daemon::handle(Role role, Incoming in) {
  if (role == Role::kWorker) {
    const std::int64_t now_us = clock_.monotonic_us();
    worker_watch_.heard(in.peer, now_us);
    if (const auto* hello = std::get_if<wire::Hello>(&in.message)) {
      worker_watch_.greeted(in.peer, *hello, now_us);
    }
  }
  if (const auto* ping = std::get_if<wire::Ping>(&in.message)) {
    const bool client = role == Role::kClient || role == Role::kOperator;
    (void)send(in.peer, wire::Pong{ping->tag, client ? client_message_bytes_ : 0});
    return;
  }
  if (std::holds_alternative<wire::Pong>(in.message)) return;
  switch (role) {
    case Role::kClient:
      return house_->from_client(in.peer, in.message);
    case Role::kWorker:
      return house_->from_worker(in.peer, in.message);
    case Role::kOperator:
      return handle_operator(in.peer, in.message);
    case Role::kGateway:
      return handle_gateway(in.peer, in.message);
    case Role::kIngress:
      return handle_ingress(in.peer, in.message);
  }
}

void Daemon::handle_operator(core::PeerId peer, wire::Message& message) {
  const auto* op = std::get_if<wire::Op>(&message);
  if (op == nullptr) return;
  if (auto refusal = refuse_tenant(*op)) {
    (void)send(peer, wire::OpResult{op->tag, false, std::move(*refusal), {}, {}});
    return;
  }
  if (op->verb == "db.backup") return begin_backup(peer, *op);
  if (op->verb == "db.accept_loss") return house_->accept_loss(peer, *op);
  if (op->verb == "objects.put" || op->verb == "objects.delete") {
    return house_->change_object(peer, *op);
  }
  if (TokenDesk::knows(op->verb)) {
    return token_desk_->ask(peer, *op, house_->machine(), clock_.monotonic_us());
  }
  OpAction action = read_op(peer, *op);
  if (auto* refusal = std::get_if<wire::Refusal>(&action)) {
    (void)send(peer, wire::OpResult{op->tag, false, *refusal, {}, {}});
    return;
  }
  if (auto* question = std::get_if<Deferred>(&action)) {
    deferred_.push_back({peer, op->tag, question->verb, question->args, op->tenant});
    return;
  }
  const auto& event = std::get<core::Event>(action);
  const bool silent = std::holds_alternative<core::WorkerExit>(event) ||
                      std::holds_alternative<core::Shutdown>(event);
  house_->operate(event);
  if (silent) deferred_.push_back({peer, op->tag, op->verb, {}, {}});
}

/// The verbs that a gateway needs; it speaks for whoever reached it over the network.
void Daemon::handle_gateway(core::PeerId peer, wire::Message& message) {
  const auto* op = std::get_if<wire::Op>(&message);
  if (op == nullptr || is_gateway_verb(op->verb)) return handle_operator(peer, message);
  wire::OpResult result;
  result.tag = op->tag;
  result.refusal.code = Errc::kUnauthorized;
  result.refusal.message =
      op->verb + ": not a verb of the gateway's socket; operators use run/operator.sock";
  (void)send(peer, std::move(result));
}

void Daemon::handle_ingress(core::PeerId peer, wire::Message& message) {
  if (std::holds_alternative<wire::IngressHello>(message)) {
    house_->step(core::IngressUp{peer});
    token_desk_->helper_up(peer);
  } else if (const auto* need = std::get_if<wire::NeedTokenizer>(&message)) {
    auto blobs = store_->model_blobs(need->model_sha);
    if (!blobs && blobs.error().code != Errc::kCorrupt) {
      failure_ = blobs.error();
      return;
    }
    if (!blobs) {
      // Requests of one model fail, not the service: no tokenizer can be made of nothing.
      log::error("a tokenizer cannot be read", {{"why", blobs.error().what}});
      (void)send(peer, wire::TokenizerBlob{need->model_sha, {}});
      return;
    }
    (void)send(peer, wire::TokenizerBlob{need->model_sha, std::move(blobs->tokenizer)});
  } else if (auto* prepared = std::get_if<wire::Prepared>(&message)) {
    if (token_desk_->prepared(peer, *prepared)) return;
    house_->step(core::PreparedEvent{peer, std::move(*prepared)});
  } else if (auto* inspected = std::get_if<wire::Inspected>(&message)) {
    core::InspectedEvent event;
    event.peer = peer;
    event.row = model_numbers(*inspected);
    pieces_->forget(inspected->model_sha);
    event.inspected = std::move(*inspected);
    house_->step(std::move(event));
  }
}

/// The numbers that admission and placement count with, from the shape and what was asked for.
core::ModelRow Daemon::model_numbers(const wire::Inspected& inspected) {
  core::ModelRow row;
  const core::OpAddModel* asked = house_->machine().inspect_wish(inspected.job);
  if (asked == nullptr || !inspected.ok) return row;
  row.name = asked->name;
  plan::LoadWish wish;
  wish.context = asked->context;
  wish.slots = asked->slots;
  if (!asked->kv_type.empty()) wish.kv_type = asked->kv_type;
  wish.threads = static_cast<std::int32_t>(sysconf(_SC_NPROCESSORS_ONLN));
  row.kv_type = wish.kv_type;
  row.shape = inspected.shape;
  const auto shape = plan::shape_from_json(inspected.shape);
  if (!shape) {
    log::warn("shape of a model", {{"path", asked->path}, {"why", shape.error().what}});
    return row;
  }
  const plan::Envelope envelope = plan::memory_envelope(*shape, wish);
  row.architecture = shape->architecture;
  row.context = envelope.context;
  row.slots = envelope.slots;
  row.pages = envelope.pages;
  row.prefill_chunk = envelope.prefill_chunk;
  row.vocab = static_cast<std::int32_t>(std::min<std::int64_t>(shape->vocab, 1 << 30));
  row.chat = shape->has_chat_template;
  row.output = inspected.output;
  if (!inspected.tokenizer.empty()) row.tokenizer_sha = content_hash(inspected.tokenizer);
  row.weights_bytes =
      static_cast<std::int64_t>(std::min<std::uint64_t>(envelope.weights, 1ULL << 60));
  row.kv_bytes = static_cast<std::int64_t>(std::min<std::uint64_t>(envelope.kv, 1ULL << 60));
  const std::uint64_t rest =
      std::min<std::uint64_t>(envelope.scratch, 1ULL << 60) + envelope.tables;
  row.scratch_bytes = static_cast<std::int64_t>(rest);
  return row;
}

}  // namespace holdfast::link
