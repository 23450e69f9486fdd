#include "bench/scale_run/cluster.h"

#include <set>
#include <utility>

#include "shared/base/check.h"

namespace holdfast::bench {
namespace {

// Numbers of peers: helper, client, then workers and nodes.
constexpr core::PeerId kHelper = 1, kOperator = 2, kClient = 3;
constexpr core::PeerId kWorkers = 1'000, kNodes = 1'000'000;
constexpr std::int64_t kWeightsBytes = 1LL << 30;
constexpr std::int64_t kPrompt = 32;  // tokens
constexpr std::int64_t kTokensMax = 512;
constexpr std::int32_t kVocab = 32'000;

std::string model_name(int model) {
  return "m" + std::to_string(model);
}
std::string node_name(int node) {
  return "n" + std::to_string(node);
}
std::string worker_key(int node) {
  return node_name(node) + "/w-0";
}

core::Config config_of(const ScaleOptions& options) {
  core::Config config;
  config.models_replicas = options.nodes * options.loads_of_a_worker / options.models;
  config.queue_max_requests = config.queue_max_tenant_requests = 1'000'000;
  config.requests_ended_in_memory = 1'000;
  return config;
}

wire::MemoryReport memory_of(const ScaleOptions& options) {
  wire::MemoryReport memory;
  memory.total = memory.free = 2 * kWeightsBytes * options.loads_of_a_worker;
  return memory;
}

}  // namespace

ScaleCluster::ScaleCluster(const ScaleOptions& options)
    : options_(options),
      machine_(config_of(options)),
      workers_(static_cast<std::size_t>(options.nodes)) {}

void ScaleCluster::set_time(std::int64_t now_us) {
  now_.wall_ms += (now_us - now_.mono_us) / 1'000;
  now_.mono_us = now_us;
}

void ScaleCluster::step(const core::Event& event) {
  const auto due = machine_.next_deadline_us();
  if (due && *due <= now_.mono_us) take(machine_.step(core::Timer{}, now_));
  take(machine_.step(event, now_));
  machine_.committed();
}

void ScaleCluster::take(const core::Effects& effects) {
  for (const core::Outgoing& out : effects.messages) {
    if (const auto* run = std::get_if<core::SendDispatch>(&out)) {
      const auto worker = static_cast<std::size_t>(run->to - kWorkers);
      workers_[worker].sequences.push_back({run->dispatch.request_id, run->dispatch.fence, 0});
      order_.push_back(static_cast<int>(worker));
      ++running_;
    }
    const auto* message = std::get_if<core::SendMessage>(&out);
    if (message == nullptr) continue;
    if (const auto* load = std::get_if<wire::Load>(&message->message)) {
      to_load_.emplace_back(message->to, *load);
    } else if (const auto* inspect = std::get_if<wire::Inspect>(&message->message)) {
      inspections_.push_back(inspect->job);
    }
  }
}

void ScaleCluster::build() {
  core::Boot boot;
  boot.epoch = 1;
  step(boot);
  step(core::IngressUp{kHelper});
  for (int model = 0; model < options_.models; ++model) add_model(model);
  for (int node = 0; node < options_.nodes; ++node) join(node);
  while (!to_load_.empty()) {
    const auto [peer, load] = std::move(to_load_.front());
    to_load_.pop_front();
    ready(peer, load);
  }
}

void ScaleCluster::add_model(int model) {
  core::OpAddModel add;
  add.peer = kOperator;
  add.name = model_name(model);
  add.path = "/models/" + add.name + ".gguf";
  add.load = true;
  step(add);
  CHECK_MSG(inspections_.size() == 1, "a helper looks at each model");
  core::InspectedEvent event;
  event.peer = kHelper;
  event.inspected.job = inspections_.back();
  event.inspected.ok = true;
  event.inspected.model_sha = "sha-" + add.name;
  event.row.tokenizer_sha = "tokenizer";
  event.row.context = 1'024;
  event.row.slots = options_.slots;
  event.row.pages = options_.slots * 16;
  event.row.vocab = kVocab;
  event.row.weights_bytes = kWeightsBytes;
  event.row.kv_bytes = event.row.scratch_bytes = 1 << 20;
  inspections_.clear();
  step(event);
}

void ScaleCluster::join(int node) {
  core::NodeReport report;
  report.peer = kNodes + static_cast<core::PeerId>(node);
  report.name = report.host = node_name(node);
  report.incarnation = "i";
  report.models.emplace();
  for (int model = 0; model < options_.models; ++model) {
    report.models->insert("sha-" + model_name(model));
  }
  step(report);
  wire::Hello hello;
  hello.worker_key = worker_key(node);
  hello.incarnation = "i";
  hello.pid = 1'000 + node;
  hello.host = node_name(node);
  hello.device = "cpu";
  hello.memory = memory_of(options_);
  step(core::FromWorker{kWorkers + static_cast<core::PeerId>(node), hello});
}

void ScaleCluster::ready(core::PeerId peer, const wire::Load& load) {
  wire::StateReport report;
  report.model.load_id = load.load_id;
  report.model.model_sha = load.model_sha;
  report.model.numerics_class = "class";
  report.model.state = "ready";
  report.model.slots = load.slots;
  report.model.pages_total = load.pages;
  report.model.context = load.context;
  report.model.memory = memory_of(options_);
  ++loads_;
  step(core::FromWorker{peer, report});
}

bool ScaleCluster::submit(int model) {
  const std::size_t before = running_;
  core::SubmitEvent event;
  event.peer = kClient;
  event.submit.tag = ++submitted_;
  event.submit.request_id = "r" + std::to_string(submitted_);
  event.submit.model = model_name(model);
  event.submit.prompts.emplace_back();
  event.submit.prompts.back().ids =
      std::vector<core::TokenId>(static_cast<std::size_t>(kPrompt), 5);
  event.submit.max_tokens = kTokensMax;
  event.submit.body_hash = event.submit.request_id;
  event.new_id = event.submit.request_id;
  step(event);
  return running_ > before;
}

void ScaleCluster::send_tokens(int worker, std::vector<wire::TokenEvent> events) {
  wire::Tokens tokens;
  tokens.events = std::move(events);
  step(core::FromWorker{kWorkers + static_cast<core::PeerId>(worker), std::move(tokens)});
}

void ScaleCluster::finish_oldest() {
  if (order_.empty()) return;
  const int worker = order_.front();
  order_.pop_front();
  auto& sequences = workers_[static_cast<std::size_t>(worker)].sequences;
  wire::TokenEvent event;
  event.request_id = sequences.front().request_id;
  event.fence = sequences.front().fence;
  event.start = sequences.front().produced;
  event.ids = {7};
  event.finish = core::FinishReason::kStop;
  sequences.pop_front();
  --running_;
  send_tokens(worker, {event});
}

void ScaleCluster::tokens_of(int worker) {
  std::vector<wire::TokenEvent> events;
  for (Sequence& sequence : workers_[static_cast<std::size_t>(worker)].sequences) {
    if (sequence.produced + 2 >= kTokensMax) continue;
    wire::TokenEvent event;
    event.request_id = sequence.request_id;
    event.fence = sequence.fence;
    event.start = sequence.produced++;
    event.ids = {7};
    events.push_back(std::move(event));
  }
  if (!events.empty()) send_tokens(worker, std::move(events));
}

void ScaleCluster::signs_of(int node) {
  step(core::NodeHealth{node_name(node)});
  wire::WorkerStats stats;
  stats.memory = memory_of(options_);
  const auto& sequences = workers_[static_cast<std::size_t>(node)].sequences;
  stats.running = static_cast<std::int32_t>(sequences.size());
  step(core::FromWorker{kWorkers + static_cast<core::PeerId>(node), stats});
}

}  // namespace holdfast::bench
