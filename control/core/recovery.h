#pragma once
// Recovery: requests that the database has and memory does not, at a start and after it.

#include "control/core/core.h"
#include "control/core/events.h"
#include "control/core/requests.h"

namespace holdfast::core {

class Canaries;
class Lifecycle;
class Registry;

/// Takes in requests that were accepted before this start, or have been forgotten since they
/// ended.
class Recovery {
 public:
  Recovery(Core& core, Lifecycle& lifecycle, Canaries& canaries, Registry& registry)
      : core_(core), lifecycle_(lifecycle), canaries_(canaries), registry_(registry) {}

  /// Takes in the requests that the database has in progress.
  void boot(const Boot& event);
  void on(const Recall& event);
  void on(const BootQueuePage& event);
  void on(const RowsDamaged& event);

 private:
  void bring_in_late(const BootRequest& boot);
  void bring_in(const BootRequest& boot);
  Request& take_in(const BootRequest& boot);
  void boot_choice(Request& request, Choice& choice, const BootChoice& boot);

  Core& core_;
  Lifecycle& lifecycle_;
  Canaries& canaries_;
  Registry& registry_;
};

}  // namespace holdfast::core
