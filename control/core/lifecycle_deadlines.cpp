// Deadlines of requests: in the queue, in total, without a client, and without their numerics
// class.
#include <algorithm>
#include <optional>
#include <string>

#include "control/core/lifecycle.h"
#include "control/core/loads.h"

namespace holdfast::core {
namespace {

constexpr std::int64_t kClassLookUs = 1'000'000;  // least time between two looks for a class

/// True if the load's worker is there for requests of this class.
bool is_for(const Load& load, const std::string& numerics_class) {
  return !load.only_class.empty() && numerics_class.starts_with(load.only_class + "/");
}

}  // namespace

void Lifecycle::arm_request(const Request& request) {
  for (const std::int64_t at : {request.queue_deadline_us, request.total_deadline_us,
                                request.orphan_deadline_us, request.class_deadline_us}) {
    if (at != 0) core_.timers.add(at, TimerKind::kRequest, request.row.seq);
  }
}

void Lifecycle::check_request(Seq seq) {
  Request* request = requests_.by_seq(seq);
  if (request == nullptr || request->terminal()) return;
  const auto due = [&](std::int64_t at) { return at != 0 && at <= core_.now.mono_us; };
  if (due(request->total_deadline_us)) {
    end_request(*request, FinishReason::kExpired, "expired", "total time limit reached", true);
    return;
  }
  if (due(request->queue_deadline_us) && request->row.started_ms == 0) {
    end_request(*request, FinishReason::kExpired, "expired", "waited in the queue too long", true);
    return;
  }
  if (due(request->orphan_deadline_us) && request->subscribers == 0) {
    cancel_request(*request);
    return;
  }
  if (due(request->class_deadline_us)) check_class(*request);
}

/// Ends a request whose numerics class is gone, or looks again later. A worker that is away just
/// now is not a class that is gone: it must have been away all the time.
void Lifecycle::check_class(Request& request) {
  if (request.row.state == RequestState::kQuarantined) return;  // armed again by its release
  const bool waits = request.running == 0 && request.row.state == RequestState::kQueued;
  const LoadTable::Group& its = loads_.all().of_model(request.row.model);
  const bool served = std::any_of(its.begin(), its.end(), [&](const Load* load) {
    const LoadRow& row = load->row;
    if (has_ended(row.state)) return false;
    if (row.state == ModelState::kReady) return row.numerics_class == request.row.numerics_class;
    return is_for(*load, request.row.numerics_class);  // on its way
  });
  const std::int64_t wait_us = core_.config.requests_class_wait_ms * 1000;
  const std::optional<std::int64_t> left_us =
      loads_.class_left_us(request.row.model, request.row.numerics_class);
  std::int64_t again_us = left_us ? *left_us + wait_us : 0;
  if (served || !waits) again_us = core_.now.mono_us + std::max(wait_us, kClassLookUs);
  if (again_us > core_.now.mono_us) {
    request.class_deadline_us = again_us;
    core_.timers.add(again_us, TimerKind::kRequest, request.row.seq);
    return;
  }
  end_request(request, FinishReason::kError,
              std::string(errc_name(Errc::kDeterminismClassUnavailable)),
              "no worker of numerics class " + request.row.numerics_class +
                  " came back in requests.class_wait_ms",
              true);
}

}  // namespace holdfast::core
