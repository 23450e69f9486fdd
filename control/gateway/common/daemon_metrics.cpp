#include "control/gateway/common/daemon_metrics.h"

#include <utility>

namespace holdfast::gateway {

void DaemonMetrics::ask(std::function<void(Document)> done) {
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(done));
    if (waiting_.size() > 1) return;  // asked already
  }
  client_.op_async(client::AllTenants::local(), "metrics", "{}",
                   [self = shared_from_this()](const auto& answer) { self->answer(answer); });
}

void DaemonMetrics::answer(const client::Answer<std::string>& answer) {
  Document document;
  if (const auto* text = std::get_if<std::string>(&answer)) {
    document = std::make_shared<const std::string>(*text);
  }
  std::vector<std::function<void(Document)>> waiting;
  {
    const std::lock_guard lock(mutex_);
    waiting.swap(waiting_);
  }
  for (const auto& done : waiting) done(document);
}

}  // namespace holdfast::gateway
