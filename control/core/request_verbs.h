#pragma once
// Operator verbs for requests and the queue.

#include "control/core/core.h"
#include "control/core/events.h"
#include "control/core/requests.h"

namespace holdfast::core {

class Lifecycle;

/// Operator verbs for requests and the queue.
class RequestVerbs {
 public:
  RequestVerbs(Core& core, Lifecycle& lifecycle) : core_(core), lifecycle_(lifecycle) {}

  void on(const OpCancel& event);
  /// Changes a request's priority. What waits moves at once; what runs, the next time that it
  /// waits.
  void on(const OpMove& event);
  void on(const OpRequeue& event);
  void on(const OpPause& event);

 private:
  void release_from_quarantine(Request& request);

  Core& core_;
  Lifecycle& lifecycle_;
};

}  // namespace holdfast::core
