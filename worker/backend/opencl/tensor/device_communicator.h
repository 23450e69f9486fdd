#pragma once
// Moves rows from one device of a load to the others: by copies between their buffers, or through
// the host where devices cannot see each other's memory.

#include <cstddef>
#include <vector>

#include "worker/backend/opencl/device/staging.h"

namespace holdfast::opencl {

/// A block of the rows of part `from` of a load, to be sent to part `to` or to all other parts.
struct Send {
  static constexpr int kOthers = -1;
  int from = 0;
  int to = kOthers;
  Block block;
};

/// Moves rows between the parts of a load: the all-gather of tensor parallelism, and the sends of
/// pipeline parallelism. Not thread-safe. Nothing is allocated after construction.
class DeviceCommunicator {
 public:
  /// `queues`: one for each part; they outlive this object. `host`: staging memory for rows in
  /// transit, each as large as the rows of any call, gaps included; empty where the queues share a
  /// context, so that rows are copied between buffers.
  DeviceCommunicator(std::vector<Queue*> queues, std::vector<Staging>&& host);

  /// Enqueues the sends, after what is in the queues and before what comes next. `rows`: each
  /// part's rows; their strides are equal (CHECKed). The queues report failures.
  void run(const std::vector<RowsAt>& rows, const std::vector<Send>& sends);

 private:
  void copy(const std::vector<RowsAt>& rows, const std::vector<Send>& sends);
  void stage(const std::vector<RowsAt>& rows, const std::vector<Send>& sends);
  bool gets(std::size_t part, const Send& send) const;
  void wait_for_others(std::size_t part);

  const std::vector<Queue*> queues_;
  const std::vector<Staging> host_;  // used in turn: one is still read from while another is filled
  std::size_t turn_ = 0;
  std::vector<EventHandle> done_;  // by part
  std::vector<cl_event> waited_;
};

}  // namespace holdfast::opencl
