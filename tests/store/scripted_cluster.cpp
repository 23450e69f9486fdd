#include "tests/store/scripted_cluster.h"

namespace holdfast::store {

core::TokenId token_at(std::uint64_t seed, std::int32_t choice, std::int64_t index) {
  std::uint64_t x = seed * 0x9E3779B97F4A7C15ULL + static_cast<std::uint64_t>(choice) * 7919 +
                    static_cast<std::uint64_t>(index) * 104729 + 1;
  x ^= x >> 31;
  x *= 0xBF58476D1CE4E5B9ULL;
  x ^= x >> 29;
  return static_cast<core::TokenId>(x % 50'000);
}

ScriptedCluster::ScriptedCluster(std::uint64_t seed, std::string dir)
    : random_(seed), dir_(std::move(dir)) {
  start_daemon();
  connect_worker();
}

void ScriptedCluster::add_request(const ClientRequest& request) {
  Client client;
  client.request = request;
  client.got.resize(static_cast<std::size_t>(request.n));
  clients_.push_back(std::move(client));
}

// ---- daemon

void ScriptedCluster::start_daemon() {
  store_ = open_store(dir_);
  core::Config config;
  config.requests_class_wait_ms = 1'000'000;
  config.requests_ended_in_memory = 1;  // so that ended requests are forgotten and recalled
  machine_ = std::make_unique<core::Machine>(config);
  const std::uint64_t epoch = store_->raise_epoch(now().wall_ms).value();
  core::Boot boot = store_->load().value();
  boot.epoch = epoch;
  const bool fresh = boot.models.empty();
  step(std::move(boot));
  group(false);
  client_peer_ = ++last_peer_;
  helper_ = ++last_peer_;
  attached_.clear();
  tags_.clear();
  step(core::IngressUp{helper_});
  if (fresh) {
    core::OpAddModel add;
    add.name = "m";
    add.path = "/m";
    add.load = true;
    step(add);
    core::InspectedEvent inspected;
    inspected.peer = helper_;
    inspected.inspected.job = 1;
    inspected.inspected.ok = true;
    inspected.inspected.model_sha = "sha";
    inspected.row.context = 4096;
    inspected.row.slots = 3;
    inspected.row.pages = 192;
    step(inspected);
  }
  group(false);
  worker_.peer = 0;  // it will greet again
}

void ScriptedCluster::kill_daemon() {
  pending_ = {};
  machine_.reset();
  store_.reset();  // SQLite's close is no commit: uncommitted changes are gone
  start_daemon();
}

void ScriptedCluster::step(core::Event event) {
  machine_->step(event, now(), pending_);
}

/// Commits, then releases; the daemon may die before or after the commit.
void ScriptedCluster::group(bool may_die) {
  if (may_die && draw(40) == 0) return kill_daemon();
  commit(*store_, pending_.rows, pending_.durability);
  machine_->committed();
  if (may_die && draw(40) == 0) return kill_daemon();
  core::Effects effects = std::exchange(pending_, {});
  for (const core::Outgoing& out : effects.messages) deliver(out);
}

void ScriptedCluster::deliver(const core::Outgoing& out) {
  if (const auto* event = std::get_if<core::SendEvent>(&out)) return client_event(*event);
  if (const auto* dispatch = std::get_if<core::SendDispatch>(&out)) {
    if (dispatch->to != worker_.peer) return;
    wire::Dispatch d = dispatch->dispatch;
    d.prompt_ids = store_->prompt_ids(dispatch->seq, dispatch->prompt).value();
    return to_worker(d);
  }
  const auto* message = std::get_if<core::SendMessage>(&out);
  if (message == nullptr) return;
  if (message->to == worker_.peer) to_worker(message->message);
  if (message->to == client_peer_) to_client(message->message);
}

// ---- worker

wire::Hello ScriptedCluster::hello() const {
  wire::Hello hello;
  hello.worker_key = "w";
  hello.incarnation = std::to_string(worker_.incarnation);
  hello.pid = worker_.incarnation;
  for (const auto& [id, load] : worker_.loads) hello.models.push_back(load);
  for (const auto& [key, a] : worker_.active) {
    hello.active.push_back(
        {key.first, key.second, a.fence, a.acked, a.made, a.made == a.max_tokens});
  }
  return hello;
}

void ScriptedCluster::connect_worker() {
  worker_.peer = ++last_peer_;
  for (auto& [key, a] : worker_.active) a.held = true;
  step(core::FromWorker{worker_.peer, hello()});
}

void ScriptedCluster::kill_worker() {
  const core::PeerId peer = worker_.peer;
  worker_.loads.clear();
  worker_.active.clear();
  ++worker_.incarnation;
  worker_.peer = 0;
  if (peer != 0) step(core::PeerGone{peer});
}

void ScriptedCluster::to_worker(const wire::Message& message) {
  if (const auto* load = std::get_if<wire::Load>(&message)) {
    wire::LoadedModel model;
    model.load_id = load->load_id;
    model.model_sha = load->model_sha;
    model.numerics_class = "c";
    model.state = "ready";
    model.slots = load->slots;
    model.pages_total = load->pages;
    model.context = load->context;
    worker_.loads[load->load_id] = model;
    step(core::FromWorker{worker_.peer, wire::StateReport{model}});
  } else if (const auto* unload = std::get_if<wire::Unload>(&message)) {
    worker_.loads.erase(unload->load_id);
  } else if (const auto* d = std::get_if<wire::Dispatch>(&message)) {
    Active& a = worker_.active[{d->request_id, d->choice}];
    const auto committed = static_cast<std::int64_t>(d->committed_ids.size());
    a = {d->fence,  d->load_id, d->sampling.seed, committed,
         committed, committed,  d->max_tokens,    false};
  } else if (const auto* adopt = std::get_if<wire::Adopt>(&message)) {
    const auto it = worker_.active.find({adopt->request_id, adopt->choice});
    if (it == worker_.active.end()) return;
    it->second.fence = adopt->fence;
    it->second.acked = it->second.sent = adopt->ack_upto;
    it->second.held = false;
  } else if (const auto* drop = std::get_if<wire::Drop>(&message)) {
    worker_.active.erase({drop->request_id, drop->choice});
  } else if (const auto* cancel = std::get_if<wire::CancelWork>(&message)) {
    worker_.active.erase({cancel->request_id, cancel->choice});
  } else if (const auto* ack = std::get_if<wire::Ack>(&message)) {
    for (const wire::AckItem& item : ack->items) {
      const auto it = worker_.active.find({item.request_id, item.choice});
      if (it == worker_.active.end() || it->second.fence != item.fence) continue;
      it->second.acked = std::max(it->second.acked, item.upto);
      if (item.finished) worker_.active.erase(it);
    }
  }
}

/// Makes a few tokens of every active choice and sends those that it may; sometimes repeats some.
void ScriptedCluster::work() {
  wire::Tokens tokens;
  for (auto& [key, a] : worker_.active) {
    a.made = std::min(a.made + static_cast<std::int64_t>(draw(4)), a.max_tokens);
    if (worker_.peer == 0 || a.held) continue;
    wire::TokenEvent event;
    event.request_id = key.first;
    event.choice = key.second;
    event.fence = a.fence;
    event.start = draw(8) == 0 ? a.acked : a.sent;
    for (std::int64_t i = event.start; i < a.made; ++i) {
      event.ids.push_back(token_at(a.seed, key.second, i));
    }
    a.sent = a.made;
    if (a.made == a.max_tokens) event.finish = wire::FinishReason::kLength;
    if (!event.ids.empty() || event.finish != wire::FinishReason::kNone)
      tokens.events.push_back(event);
  }
  if (!tokens.events.empty()) step(core::FromWorker{worker_.peer, tokens});
}

// ---- client

void ScriptedCluster::ask() {
  for (std::size_t i = 0; i < clients_.size(); ++i) {
    Client& c = clients_[i];
    if (!c.accepted) {
      wire::Submit submit;
      submit.tag = ++tag_;
      tags_[submit.tag] = i;
      submit.request_id = c.request.id;
      submit.model = "m";
      wire::Prompt prompt;
      prompt.ids = {1, 2, 3};
      submit.prompts = {prompt};
      submit.n = c.request.n;
      submit.max_tokens = c.request.tokens;
      submit.sampling.seed = c.request.seed;
      submit.seed_given = true;
      submit.body_hash = c.request.id;
      if (!machine_->knows_id(c.request.id)) {
        auto found = store_->find_by_id(c.request.id).value();
        if (found) step(core::Recall{*found});
      }
      core::SubmitEvent event;
      event.peer = client_peer_;
      event.submit = submit;
      step(event);
      continue;
    }
    if (!machine_->knows_id(c.request.id)) {
      auto found = store_->find_by_id(c.request.id).value();
      if (found) step(core::Recall{*found});
    }
    if (c.request.cancel && !c.cancelled && draw(10) == 0) {
      step(core::FromClient{client_peer_, wire::Cancel{++tag_, c.request.id, ""}});
      tags_[tag_] = i;
    }
    if (c.fin || attached_.count(i) > 0) continue;
    wire::Attach attach;
    attach.tag = ++tag_;
    attach.request_id = c.request.id;
    for (const auto& ids : c.got) attach.from.push_back(static_cast<std::int64_t>(ids.size()));
    attach.window = 5;
    tags_[tag_] = i;
    attached_.insert(i);
    step(core::FromClient{client_peer_, attach});
  }
}

void ScriptedCluster::client_event(const core::SendEvent& event) {
  if (event.to != client_peer_) return;
  Client& c = clients_[tags_.at(event.tag)];
  auto& got = c.got[static_cast<std::size_t>(event.choice)];
  std::vector<core::TokenId> ids = event.ids;
  if (ids.empty())
    ids = store_->tokens(event.seq, event.choice, event.start, event.until).value().ids;
  if (event.start != static_cast<std::int64_t>(got.size())) {
    fault_ = c.request.id + ": an event starts at " + std::to_string(event.start) + ", expected " +
             std::to_string(got.size());
    return;
  }
  got.insert(got.end(), ids.begin(), ids.end());
  step(core::FromClient{client_peer_,
                        wire::Credit{event.tag, c.request.id, event.choice, event.until}});
}

void ScriptedCluster::to_client(const wire::Message& message) {
  if (const auto* accepted = std::get_if<wire::Accepted>(&message)) {
    clients_[tags_.at(accepted->tag)].accepted = true;
  } else if (const auto* fin = std::get_if<wire::Fin>(&message)) {
    Client& c = clients_[tags_.at(fin->tag)];
    if (c.fin) fault_ = c.request.id + ": two FINs";
    c.fin = true;
    c.info = fin->info;
  } else if (const auto* status = std::get_if<wire::StatusReply>(&message)) {
    clients_[tags_.at(status->tag)].cancelled = true;
  } else if (const auto* refused = std::get_if<wire::Refused>(&message)) {
    fault_ = "refused: " + refused->refusal.message;
  }
}

// ---- the run

void ScriptedCluster::tick() {
  now_us_ += static_cast<std::int64_t>(draw(20'000));
  ask();
  switch (draw(30)) {
    case 0:
      kill_worker();
      break;
    case 1:  // the connection breaks; the process goes on
      if (worker_.peer != 0) step(core::PeerGone{std::exchange(worker_.peer, 0)});
      break;
    case 2:  // a new connection before the old one was found gone
      connect_worker();
      break;
    case 3:
      now_us_ += static_cast<std::int64_t>(draw(3'000'000));
      break;
    default:
      work();
  }
  if (worker_.peer == 0 && draw(3) == 0) connect_worker();
  if (machine_->next_deadline_us().value_or(now_us_ + 1) <= now_us_) step(core::Timer{});
  if (draw(3) != 0) group(true);  // groups of several events
}

bool ScriptedCluster::settle(int ticks) {
  for (int i = 0; i < ticks; ++i) {
    now_us_ += 10'000;
    if (worker_.peer == 0) connect_worker();
    ask();
    work();
    step(core::Timer{});
    group(false);
    bool all = true;
    for (const Client& c : clients_) all = all && c.fin;
    if (all || !fault_.empty()) return true;
  }
  return false;
}

std::string ScriptedCluster::audit() {
  if (!fault_.empty()) return fault_;
  if (machine_->core().counters.violations != 0) return "a determinism violation";
  for (const Client& c : clients_) {
    for (std::size_t choice = 0; choice < c.got.size(); ++choice) {
      const auto& got = c.got[choice];
      const auto size = static_cast<std::int64_t>(got.size());
      if (size != c.info.choices[choice].next_index)
        return c.request.id + ": FIN before its tokens";
      if (!c.request.cancel && size != c.request.tokens)
        return c.request.id + ": too few or many tokens";
      for (std::int64_t i = 0; i < size; ++i) {
        if (got[static_cast<std::size_t>(i)] !=
            token_at(c.request.seed, static_cast<std::int32_t>(choice), i)) {
          return c.request.id + ": another token at " + std::to_string(i);
        }
      }
    }
    if (!c.request.cancel && c.info.state != wire::RequestState::kSucceeded) {
      return c.request.id + ": ended as " + std::string(wire::state_name(c.info.state));
    }
  }
  return {};
}

}  // namespace holdfast::store
