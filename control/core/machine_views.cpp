// Views of the queue for status and metrics.
#include <algorithm>
#include <tuple>

#include "control/core/machine.h"

namespace holdfast::core {

std::vector<QueueLine> Machine::queue_lines(std::int64_t now_us) const {
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
  for (const auto& [id, load] : loads_) {
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
