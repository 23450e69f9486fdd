// Views of requests and of the queue, for clients, status and metrics.
#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "control/core/lifecycle.h"
#include "control/core/loads.h"
#include "control/core/registry.h"

namespace holdfast::core {

std::int64_t Lifecycle::queued_choices() const {
  std::int64_t total = unread_;
  for (const auto& [key, queue] : queues_) total += static_cast<std::int64_t>(queue.size());
  return total;
}

wire::RequestInfo Lifecycle::info(const Request& request) const {
  wire::RequestInfo info;
  info.request_id = request.row.id;
  info.tenant = request.row.tenant;
  info.model = request.row.model;
  info.model_sha = request.row.model_sha;
  info.state = request.row.state;
  info.created_ms = request.row.created_ms;
  info.finished_ms = request.row.finished_ms;
  info.prompt_tokens = request.prompt_tokens;
  for (const Choice& choice : request.choices) {
    info.choices.push_back({choice.row.choice, choice.row.prompt, choice.row.next_index,
                            choice.row.finish, choice.row.error_code, choice.row.error});
  }
  info.max_tokens = request.row.max_tokens;
  info.sampling = request.sampling;
  info.stops = request.stops;
  info.echo = request.echo;
  info.meta = request.meta;
  info.alias = request.row.alias;
  if (request.row.state != RequestState::kQueued) return info;
  const auto queue = queues_.find(request.row.model);
  for (const Choice& choice : request.choices) {
    if (choice.phase != ChoicePhase::kQueued || queue == queues_.end()) continue;
    const ChoiceRef ref{request.row.seq, choice.row.choice};
    info.queue_position = queue->second.position(ref);
    break;
  }
  const auto model = registry_.models().find(request.row.model);
  std::int64_t slots = 0;
  for (const Load* load : loads_.all().of_model(request.row.model)) {
    if (load->row.state == ModelState::kReady) slots += load->row.slots;
  }
  if (model != registry_.models().end() && model->second.service_ms > 0 && slots > 0 &&
      info.queue_position >= 0) {
    info.eta_ms = static_cast<std::int64_t>(model->second.service_ms *
                                            static_cast<double>(info.queue_position + 1) /
                                            static_cast<double>(slots));
  }
  return info;
}

std::vector<QueueLine> Lifecycle::queue_lines(std::int64_t now_us) const {
  std::map<std::tuple<std::string, std::string, PriorityClass>, QueueLine> lines;
  const auto line = [&](const std::string& model, const std::string& tenant,
                        PriorityClass priority) -> QueueLine& {
    QueueLine& at = lines[{model, tenant, priority}];
    at.model = model;
    at.tenant = tenant;
    at.priority = priority;
    return at;
  };
  for (const auto& [model, queue] : queues_) {
    for (const WorkQueue::Waiting& entry : queue.waiting_by_tenant()) {
      QueueLine& at = line(model, entry.tenant, entry.priority);
      at.waiting += entry.waiting;
      const auto request = requests_.all().find(entry.oldest.seq);
      if (request == requests_.all().end()) continue;
      at.oldest_wait_us = std::max(at.oldest_wait_us, now_us - request->second.accepted_us);
    }
  }
  for (const auto& [id, load] : loads_.all()) {
    for (const ChoiceRef& ref : load.running) {
      const auto request = requests_.all().find(ref.seq);
      if (request == requests_.all().end()) continue;
      const RequestRow& row = request->second.row;
      ++line(row.model, row.tenant, row.priority).running;
    }
  }
  std::vector<QueueLine> result;
  for (auto& [key, at] : lines) result.push_back(std::move(at));
  return result;
}

}  // namespace holdfast::core
