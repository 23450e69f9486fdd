// Turns messages of peers into events of the machine.
#include <unistd.h>

#include <algorithm>

#include "control/daemon/daemon.h"
#include "control/endpoints/names.h"
#include "control/endpoints/peer_rights.h"
#include "control/endpoints/peer_role.h"
#include "shared/base/log.h"
#include "shared/plan/plan.h"

namespace holdfast::daemon {

void Daemon::handle(RouterEndpoint& router, Incoming in) {
  if (router.role() == Role::kElsewhere) return handle_elsewhere(router, std::move(in));
  handle_local(router.role(), std::move(in));
}

void Daemon::hear_worker(core::PeerId peer, const wire::Message& message, bool is_local) {
  const std::int64_t now_us = clock_.monotonic_us();
  worker_watch_.received(peer, now_us);
  if (const auto* hello = std::get_if<wire::Hello>(&message)) {
    worker_watch_.greeted(peer, *hello, is_local, now_us);
  }
}

void Daemon::handle_local(Role role, Incoming in) {
  if (role == Role::kWorker) hear_worker(in.peer, in.message, true);
  if (const auto* ping = std::get_if<wire::Ping>(&in.message)) {
    const bool client = role == Role::kClient || role == Role::kOperator;
    (void)send(in.peer, wire::Pong{ping->tag, client ? client_message_bytes_ : 0});
    return;
  }
  if (std::holds_alternative<wire::Pong>(in.message)) return;
  switch (role) {
    case Role::kClient:
      return commit_loop_->from_client(in.peer, in.message);
    case Role::kWorker:
      return commit_loop_->from_worker(in.peer, in.message);
    case Role::kOperator:
      return handle_operator(in.peer, in.message);
    case Role::kGateway:
      return handle_gateway(in.peer, in.message);
    case Role::kIngress:
      return handle_ingress(in.peer, in.message);
    case Role::kElsewhere:
      CHECK(false);  // handle_elsewhere
  }
}

void Daemon::handle_operator(core::PeerId peer, wire::Message& message) {
  const auto* op = std::get_if<wire::Op>(&message);
  if (op == nullptr) return;
  if (auto refusal = refuse_tenant(*op)) {
    (void)send(peer, wire::OpResult{op->tag, false, std::move(*refusal), {}, {}});
    return;
  }
  if (answer_pair(peer, *op)) return;
  if (op->verb == "db.backup") return begin_backup(peer, *op);
  if (OutgoingCopy::knows(op->verb)) {
    const std::int64_t free_min = commit_loop_->machine().config().storage_min_free_bytes;
    return outgoing_copy_->ask(peer, *op, free_min, clock_.monotonic_us());
  }
  if (op->verb == "db.accept_loss") return commit_loop_->accept_loss(peer, *op);
  if (Objects::changes(op->verb)) {
    // Read again behind the commit; another object that has the word costs a read of the keys.
    peer_keys_changed_ |= op->args.find(client::kPeerKeyKind) != std::string::npos;
    return commit_loop_->change_object(peer, *op);
  }
  if (TokenizeService::knows(op->verb)) {
    return tokenize_service_->ask(peer, *op, commit_loop_->machine(), clock_.monotonic_us());
  }
  operate(peer, *op);
}

void Daemon::operate(core::PeerId peer, const wire::Op& op) {
  OpAction action = read_op(peer, op);
  if (auto* refusal = std::get_if<wire::Refusal>(&action)) {
    (void)send(peer, wire::OpResult{op.tag, false, *refusal, {}, {}});
    return;
  }
  if (auto* question = std::get_if<Deferred>(&action)) {
    deferred_.push_back({peer, op.tag, question->verb, question->args, op.tenant});
    return;
  }
  const auto& event = std::get<core::Event>(action);
  const bool silent = std::holds_alternative<core::WorkerExit>(event) ||
                      std::holds_alternative<core::Shutdown>(event);
  commit_loop_->operate(event);
  if (silent) deferred_.push_back({peer, op.tag, op.verb, {}, {}});
}

/// Handles the verbs that a gateway may send; it speaks for clients of the network.
void Daemon::handle_gateway(core::PeerId peer, wire::Message& message) {
  const auto* op = std::get_if<wire::Op>(&message);
  if (op == nullptr) return;
  const std::string why =
      is_gateway_verb(op->verb)
          ? reason_to_refuse_object(client::PeerRole::kGateway, *op)
          : op->verb + ": not a verb of the gateway's socket; operators use run/operator.sock";
  if (why.empty()) return handle_operator(peer, message);
  (void)send(peer, *refusal_of(message, why));
}

void Daemon::handle_ingress(core::PeerId peer, wire::Message& message) {
  if (std::holds_alternative<wire::IngressHello>(message)) {
    commit_loop_->step(core::IngressUp{peer});
    tokenize_service_->helper_up(peer);
  } else if (const auto* need = std::get_if<wire::NeedTokenizer>(&message)) {
    auto blobs = store_->model_blobs(need->model_sha);
    if (!blobs && blobs.error().code != Errc::kCorrupt) {
      failure_ = blobs.error();
      return;
    }
    if (!blobs) {
      // Requests of this model fail, not the service: an empty blob gives no tokenizer.
      log::error("a tokenizer cannot be read", {{"why", blobs.error().what}});
      (void)send(peer, wire::TokenizerBlob{need->model_sha, {}});
      return;
    }
    (void)send(peer, wire::TokenizerBlob{need->model_sha, std::move(blobs->tokenizer)});
  } else if (auto* prepared = std::get_if<wire::Prepared>(&message)) {
    if (tokenize_service_->prepared(peer, *prepared)) return;
    commit_loop_->step(core::PreparedEvent{peer, std::move(*prepared)});
  } else if (auto* inspected = std::get_if<wire::Inspected>(&message)) {
    core::InspectedEvent event;
    event.peer = peer;
    event.row = model_numbers(*inspected);
    detokenizers_->forget(inspected->model_sha);
    event.inspected = std::move(*inspected);
    commit_loop_->step(std::move(event));
  }
}

/// The numbers that admission and placement count with, from the file's shape and the options of
/// the verb that adds the model.
core::ModelRow Daemon::model_numbers(const wire::Inspected& inspected) {
  core::ModelRow row;
  const core::OpAddModel* add_request =
      commit_loop_->machine().jobs().inspect_request(inspected.job);
  if (add_request == nullptr || !inspected.ok) return row;
  row.name = add_request->name;
  plan::LoadRequest load_request;
  load_request.context = add_request->context;
  load_request.slots = add_request->slots;
  if (!add_request->kv_type.empty()) load_request.kv_type = add_request->kv_type;
  load_request.threads = static_cast<std::int32_t>(sysconf(_SC_NPROCESSORS_ONLN));
  row.kv_type = load_request.kv_type;
  row.shape = inspected.shape;
  const auto shape = plan::shape_from_json(inspected.shape);
  if (!shape) {
    log::warn("shape of a model", {{"path", add_request->path}, {"why", shape.error().what}});
    return row;
  }
  const plan::Envelope envelope = plan::memory_envelope(*shape, load_request);
  row.architecture = shape->architecture;
  row.context = envelope.context;
  row.slots = envelope.slots;
  row.pages = envelope.pages;
  row.prefill_chunk = envelope.prefill_chunk;
  row.vocab = static_cast<std::int32_t>(std::min<std::int64_t>(shape->vocab, 1 << 30));
  row.chat = shape->has_chat_template || inspected.has_template;
  row.output = inspected.output;
  if (!inspected.tokenizer.empty()) row.tokenizer_sha = content_hash(inspected.tokenizer);
  row.weights_bytes =
      static_cast<std::int64_t>(std::min<std::uint64_t>(envelope.weights, 1ULL << 60));
  row.kv_bytes = static_cast<std::int64_t>(std::min<std::uint64_t>(envelope.kv, 1ULL << 60));
  const std::uint64_t rest = std::min<std::uint64_t>(envelope.scratch, 1ULL << 60) +
                             envelope.tables + std::min<std::uint64_t>(envelope.load, 1ULL << 60);
  row.scratch_bytes = static_cast<std::int64_t>(rest);
  return row;
}

}  // namespace holdfast::daemon
