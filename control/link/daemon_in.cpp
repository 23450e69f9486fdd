// Messages of peers as events of the machine.
#include <algorithm>

#include "control/link/daemon.h"
#include "control/link/names.h"
#include "shared/base/log.h"
#include "shared/plan/plan.h"

namespace holdfast::link {
namespace {

/// True if the message is of one of the types that this variant holds; it is then moved into it.
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

void Daemon::handle(Role role, Incoming in) {
  if (const auto* ping = std::get_if<wire::Ping>(&in.message)) {
    reply(in.peer, wire::Pong{ping->tag});
    return;
  }
  if (std::holds_alternative<wire::Pong>(in.message)) return;
  switch (role) {
    case Role::kClient:
      return handle_client(in.peer, in.message);
    case Role::kWorker:
      return handle_worker(in.peer, in.message);
    case Role::kOperator:
      return handle_operator(in.peer, in.message);
    case Role::kIngress:
      return handle_ingress(in.peer, in.message);
  }
}

/// The machine holds live requests and recent ends; older ones are read when they are named.
void Daemon::recall(const std::string& id, const std::string& tenant, const std::string& key) {
  const auto read = [this](auto found) {
    if (!found) {
      failure_ = found.error();
    } else if (*found) {
      // It has ended and was forgotten after its commit, or is of a queue that is still being read.
      step(core::Recall{std::move(**found)});
    }
  };
  if (!id.empty() && !machine_.knows_id(id)) read(store_->find_by_id(id));
  const std::string owner = tenant.empty() ? "default" : tenant;
  if (!key.empty() && !machine_.knows_key(owner, key)) read(store_->find_by_key(owner, key));
}

void Daemon::handle_client(core::PeerId peer, wire::Message& message) {
  if (auto* submit = std::get_if<wire::Submit>(&message)) {
    recall(submit->request_id, submit->tenant, submit->idem_key);
    core::SubmitEvent event;
    event.peer = peer;
    if (submit->body_hash.empty()) event.body_hash = body_hash(*submit);
    if (submit->request_id.empty()) event.new_id = new_request_id(clock_.wall_ms());
    if (!submit->seed_given) event.new_seed = random_u64();
    event.submit = std::move(*submit);
    step(std::move(event));
    return;
  }
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

void Daemon::handle_worker(core::PeerId peer, wire::Message& message) {
  core::FromWorker event;
  event.peer = peer;
  if (take<decltype(event.message), wire::Hello, wire::Tokens, wire::Returned, wire::StateReport,
           wire::WorkerStats, wire::Drain, wire::Drained>(message, event.message)) {
    step(std::move(event));
  }
}

void Daemon::handle_operator(core::PeerId peer, wire::Message& message) {
  const auto* op = std::get_if<wire::Op>(&message);
  if (op == nullptr) return;
  if (op->verb == "db.backup") return begin_backup(peer, *op);
  OpAction action = read_op(peer, *op);
  if (auto* refusal = std::get_if<wire::Refusal>(&action)) {
    reply(peer, wire::OpResult{op->tag, false, *refusal, {}});
    return;
  }
  if (auto* question = std::get_if<Deferred>(&action)) {
    deferred_.push_back({peer, op->tag, question->verb, question->args});
    return;
  }
  const auto& event = std::get<core::Event>(action);
  if (const std::string* id = core::request_named_by(event)) recall(*id, {}, {});
  const bool silent = std::holds_alternative<core::WorkerExit>(event) ||
                      std::holds_alternative<core::Shutdown>(event);
  step(event);
  if (silent) deferred_.push_back({peer, op->tag, op->verb, {}});
}

void Daemon::handle_ingress(core::PeerId peer, wire::Message& message) {
  if (std::holds_alternative<wire::IngressHello>(message)) {
    step(core::IngressUp{peer});
  } else if (const auto* need = std::get_if<wire::NeedTokenizer>(&message)) {
    auto blobs = store_->model_blobs(need->model_sha);
    if (!blobs) {
      failure_ = blobs.error();
      return;
    }
    reply(peer, wire::TokenizerBlob{need->model_sha, std::move(blobs->tokenizer)});
  } else if (auto* prepared = std::get_if<wire::Prepared>(&message)) {
    step(core::PreparedEvent{peer, std::move(*prepared)});
  } else if (auto* inspected = std::get_if<wire::Inspected>(&message)) {
    core::InspectedEvent event;
    event.peer = peer;
    event.row = model_numbers(*inspected);
    pieces_->forget(inspected->model_sha);
    event.inspected = std::move(*inspected);
    step(std::move(event));
  }
}

/// The numbers that admission and placement count with, from the shape and what was asked for.
core::ModelRow Daemon::model_numbers(const wire::Inspected& inspected) {
  core::ModelRow row;
  const core::OpAddModel* asked = machine_.inspect_wish(inspected.job);
  if (asked == nullptr || !inspected.ok) return row;
  plan::LoadWish wish;
  wish.context = asked->context;
  wish.slots = asked->slots;
  if (!asked->kv_type.empty()) wish.kv_type = asked->kv_type;
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
  row.weights_bytes =
      static_cast<std::int64_t>(std::min<std::uint64_t>(envelope.weights, 1ULL << 60));
  row.kv_bytes = static_cast<std::int64_t>(std::min<std::uint64_t>(envelope.kv, 1ULL << 60));
  row.scratch_bytes =
      static_cast<std::int64_t>(std::min<std::uint64_t>(envelope.scratch, 1ULL << 60));
  return row;
}

}  // namespace holdfast::link
