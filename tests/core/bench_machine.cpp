#include "tests/core/bench_machine.h"

#include <algorithm>
#include <map>

namespace holdfast::core {

void Bench::step(Event event) {
  Effects effects = machine.step(event, now);
  if (watch) watch(event, effects);
  rows.insert(rows.end(), effects.rows.begin(), effects.rows.end());
  sent = std::move(effects.messages);
  durability = effects.durability;
  notes = std::move(effects.notes);
  stop = stop || effects.stop;
}

void Bench::advance_ms(std::int64_t ms) {
  now.mono_us += ms * 1000;
  now.wall_ms += ms;
  step(Timer{});
}

void Bench::boot(Boot event, std::uint64_t epoch) {
  event.epoch = epoch;
  step(std::move(event));
}

void Bench::add_model(std::int64_t context, std::int32_t slots, std::int32_t pages, bool load,
                      const std::string& name, std::int64_t weights) {
  step(IngressUp{kHelper});
  OpAddModel add;
  add.peer = kOperator;
  add.tag = 1;
  add.name = name;
  add.path = "/models/" + name + ".gguf";
  add.load = load;
  step(add);
  const auto inspects = messages<wire::Inspect>(kHelper);
  CHECK(inspects.size() == 1);
  InspectedEvent event;
  event.peer = kHelper;
  event.inspected.job = inspects[0].job;
  event.inspected.ok = true;
  event.inspected.model_sha = "sha-" + name;
  event.row.tokenizer_sha = "tokenizer";
  event.row.context = context;
  event.row.slots = slots;
  event.row.pages = pages;
  event.row.vocab = 1000;
  event.row.weights_bytes = weights;
  event.row.kv_bytes = 64'000;
  event.row.scratch_bytes = 100;
  step(event);
}

wire::Hello Bench::hello(const std::string& key, const std::string& incarnation) {
  wire::Hello hello;
  hello.worker_key = key;
  hello.incarnation = incarnation;
  hello.pid = 4000 + static_cast<std::int64_t>(key.back());
  hello.host = "h";
  hello.device = "cpu-" + key;
  return hello;
}

void Bench::connect_worker(PeerId peer, const std::string& key, const std::string& numerics) {
  step(FromWorker{peer, hello(key)});
  make_ready(peer, numerics);
}

void Bench::make_ready(PeerId peer, const std::string& numerics, std::int32_t slots,
                       std::int32_t pages) {
  for (const wire::Load& load : messages<wire::Load>(peer)) {
    wire::StateReport report;
    report.model.load_id = load.load_id;
    report.model.model_sha = load.model_sha;
    report.model.numerics_class = numerics;
    report.model.state = "ready";
    report.model.slots = slots;
    report.model.pages_total = pages;
    report.model.context = load.context;
    step(FromWorker{peer, report});
  }
}

wire::LoadedModel ready_model(const std::string& load_id) {
  wire::LoadedModel model;
  model.load_id = load_id;
  model.model_sha = "sha-m";
  model.numerics_class = "class-a";
  model.state = "ready";
  model.slots = 4;
  model.pages_total = 64;
  return model;
}

void Bench::unloaded(PeerId peer) {
  const auto unloads = messages<wire::Unload>(peer);
  CHECK_MSG(unloads.size() == 1, "expected exactly one UNLOAD");
  wire::StateReport report;
  report.model.load_id = unloads[0].load_id;
  report.model.state = "unloaded";
  step(FromWorker{peer, report});
}

wire::Submit Bench::submission(const std::string& id, std::int64_t max_tokens,
                               std::int64_t prompt) {
  wire::Submit submit;
  submit.tag = 7;
  submit.request_id = id;
  submit.model = "m";
  wire::Prompt p;
  p.ids = std::vector<TokenId>(static_cast<std::size_t>(prompt), 5);
  submit.prompts = {p};
  submit.max_tokens = max_tokens;
  submit.body_hash = "hash-" + id;
  return submit;
}

wire::Submit Bench::text_submission(const std::string& id) {
  wire::Submit submit = submission(id);
  submit.prompts[0].ids.reset();
  submit.prompts[0].text = "hello";
  return submit;
}

void Bench::submit(wire::Submit submit, PeerId peer) {
  SubmitEvent event;
  event.peer = peer;
  event.submit = std::move(submit);
  event.new_id = "new-id";
  event.new_seed = 42;
  step(event);
}

void Bench::tokens(PeerId worker, const wire::Dispatch& d, std::int64_t start,
                   std::vector<TokenId> ids, FinishReason finish) {
  wire::TokenEvent event;
  event.request_id = d.request_id;
  event.choice = d.choice;
  event.fence = d.fence;
  event.start = start;
  event.ids = std::move(ids);
  event.finish = finish;
  wire::Tokens tokens;
  tokens.events = {event};
  step(FromWorker{worker, tokens});
}

void Bench::fail(PeerId worker, const wire::Dispatch& d, const std::string& code,
                 const std::string& error) {
  wire::TokenEvent event;
  event.request_id = d.request_id;
  event.choice = d.choice;
  event.fence = d.fence;
  event.finish = FinishReason::kError;
  event.error_code = code;
  event.error = error;
  wire::Tokens tokens;
  tokens.events = {event};
  step(FromWorker{worker, tokens});
}

std::vector<wire::Dispatch> Bench::dispatches(PeerId peer) const {
  std::vector<wire::Dispatch> out;
  for (const Outgoing& o : sent) {
    const auto* d = std::get_if<SendDispatch>(&o);
    if (d != nullptr && (peer == 0 || d->to == peer)) out.push_back(d->dispatch);
  }
  return out;
}

wire::Dispatch Bench::dispatch(PeerId peer) const {
  const auto all = dispatches(peer);
  CHECK_MSG(all.size() == 1, "expected exactly one dispatch");
  return all[0];
}

std::vector<SendEvent> Bench::events(PeerId peer) const {
  std::vector<SendEvent> out;
  for (const Outgoing& o : sent) {
    const auto* e = std::get_if<SendEvent>(&o);
    if (e != nullptr && (peer == 0 || e->to == peer)) out.push_back(*e);
  }
  return out;
}

std::vector<TokenId> Bench::stored_ids(const std::string& id, std::int32_t choice) const {
  Seq seq = 0;
  for (const auto& insert : written<InsertRequest>()) {
    if (insert.row.id == id) seq = insert.row.seq;
  }
  std::vector<TokenId> ids;
  for (const auto& chunk : written<InsertChunk>()) {
    if (chunk.seq != seq || chunk.choice != choice) continue;
    CHECK_MSG(chunk.start == static_cast<std::int64_t>(ids.size()), "chunks follow each other");
    ids.insert(ids.end(), chunk.ids.begin(), chunk.ids.end());
  }
  return ids;
}

RequestState Bench::state(const std::string& id) {
  const Request* request = machine.request(id);
  CHECK_MSG(request != nullptr, "the request is known");
  return request->row.state;
}

namespace {

void apply_alias_change(const AliasChange& change, Boot& boot,
                        std::map<Seq, BootRequest>& requests) {
  const auto put = [](auto& rows, const auto& row, auto same) {
    const auto it = std::find_if(rows.begin(), rows.end(), same);
    if (it == rows.end()) {
      rows.push_back(row);
    } else {
      *it = row;
    }
  };
  if (const auto* c = std::get_if<PutAlias>(&change)) {
    put(boot.aliases, c->row, [&](const AliasRow& row) { return row.name == c->row.name; });
  } else if (const auto* c = std::get_if<DeleteAlias>(&change)) {
    std::erase_if(boot.aliases, [&](const AliasRow& row) { return row.name == c->name; });
  } else if (const auto* c = std::get_if<PutCanary>(&change)) {
    put(boot.canaries, c->row, [&](const CanaryRow& row) { return row.id == c->row.id; });
  } else if (const auto* c = std::get_if<RerouteRequest>(&change)) {
    RequestRow& row = requests.at(c->seq).row;
    row.model = c->model;
    row.model_sha = c->model_sha;
    row.canary = 0;
    row.rerouted_from = c->rerouted_from;
  }
}

void collect_key_uses(const std::map<Seq, BootRequest>& requests, Boot& boot) {
  std::map<std::string, KeyUse> keys;
  for (const auto& [seq, request] : requests) {
    if (request.row.api_key.empty()) continue;
    KeyUse& use = keys[request.row.api_key];
    use.key = request.row.api_key;
    use.live += !wire::is_terminal(request.row.state);
    use.created_ms.push_back(request.row.created_ms);
  }
  for (const auto& [key, use] : keys) boot.keys.push_back(use);
}

void apply_flags(const std::map<std::string, std::string>& flags, Boot& boot) {
  for (const auto& [name, value] : flags) {
    if (name == "queue.paused") boot.queue_paused = value == "1";
    if (name.starts_with("drain/") && value == "1") boot.drained_workers.push_back(name.substr(6));
    if (name.starts_with("node/")) boot.nodes[name.substr(5)] = value;
    if (name.starts_with("node_drain/") && value == "1") {
      boot.drained_nodes.push_back(name.substr(11));
    }
    if (name.starts_with("pin/") && value == "1") boot.pinned_models.push_back(name.substr(4));
    if (name.starts_with("quarantine/") && !value.empty()) {
      boot.quarantined_workers[name.substr(11)] = value;
    }
    if (name.starts_with("identity/")) boot.identities[name.substr(9)] = value;
    if (name.starts_with("load_failures/")) boot.load_failures[name.substr(14)] = value;
    if (name.starts_with("keep_alive/") && !value.empty()) {
      boot.keep_alives[name.substr(11)] = value;
    }
  }
}

}  // namespace

Boot Bench::database() const {
  Boot boot;
  std::map<Seq, BootRequest> requests;
  std::map<std::string, ModelRow> models;
  std::map<std::string, LoadRow> loads;
  std::map<std::string, std::string> flags;
  for (const RowChange& row : rows) {
    if (const auto* c = std::get_if<InsertRequest>(&row)) {
      BootRequest& r = requests[c->row.seq];
      r.row = c->row;
      r.sampling = c->payload.sampling;
      r.stops = c->payload.stops;
      for (const auto& ids : c->payload.prompt_ids) r.prompt_tokens.push_back(std::ssize(ids));
      for (const ChoiceRow& choice : c->choices)
        r.choices.push_back({choice, {}, false, {}, {}, {}, {}});
      boot.last_seq = std::max(boot.last_seq, c->row.seq);
    } else if (const auto* c = std::get_if<UpdateRequest>(&row)) {
      RequestRow& r = requests.at(c->seq).row;
      r.state = c->state;
      r.priority = c->priority;
      r.numerics_class = c->numerics_class;
      r.started_ms = c->started_ms;
      r.finished_ms = c->finished_ms;
      r.error_code = c->error_code;
      r.error = c->error;
    } else if (const auto* c = std::get_if<UpdateChoice>(&row)) {
      requests.at(c->seq).choices[static_cast<std::size_t>(c->row.choice)].row = c->row;
    } else if (const auto* c = std::get_if<InsertChunk>(&row)) {
      auto& ids = requests.at(c->seq).choices[static_cast<std::size_t>(c->choice)].ids;
      ids.insert(ids.end(), c->ids.begin(), c->ids.end());
    } else if (const auto* c = std::get_if<BeginAttempt>(&row)) {
      BootChoice& choice = requests.at(c->seq).choices[static_cast<std::size_t>(c->choice)];
      choice.has_attempt = true;
      choice.fence = c->fence;
      choice.worker_key = c->worker_key;
      choice.incarnation = c->incarnation;
      choice.load_id = c->load_id;
    } else if (const auto* c = std::get_if<EndAttempt>(&row)) {
      BootChoice& choice = requests.at(c->seq).choices[static_cast<std::size_t>(c->choice)];
      if (choice.fence == c->fence) choice.has_attempt = false;
    } else if (const auto* c = std::get_if<PutModel>(&row)) {
      models[c->row.name] = c->row;
    } else if (const auto* c = std::get_if<PutLoad>(&row)) {
      loads[c->row.load_id] = c->row;
    } else if (const auto* c = std::get_if<AliasChange>(&row)) {
      apply_alias_change(*c, boot, requests);
    } else if (const auto* c = std::get_if<InsertConfigVersion>(&row)) {
      boot.config_versions.push_back(c->version);
    } else if (const auto* c = std::get_if<PutFlag>(&row)) {
      flags[c->name] = c->value;
    }
  }
  for (auto& [seq, request] : requests) {
    if (!wire::is_terminal(request.row.state)) boot.requests.push_back(request);
  }
  collect_key_uses(requests, boot);
  for (auto& [name, model] : models) boot.models.push_back(model);
  apply_flags(flags, boot);
  for (auto& [id, load] : loads) {
    if (load.ended_ms == 0) boot.loads.push_back(load);
  }
  return boot;
}

}  // namespace holdfast::core
