#pragma once
// Rows from one device of a load to the others: by copies between their buffers, or through the
// host where devices cannot see each other's memory.

#include <cstddef>
#include <vector>

#include "worker/backend/opencl/staging.h"

namespace holdfast::opencl {

/// Part of the rows that part `from` of a load has and part `to`, or every other one, is to have.
struct Send {
  static constexpr int kOthers = -1;
  int from = 0;
  int to = kOthers;
  Block block;
};

/// Not thread-safe. Nothing is allocated after construction.
class Exchange {
 public:
  /// `queues`: one for each part; they outlive this. `host`: where rows lie on their way, each as
  /// large as the rows of any call, gaps included; empty where the queues share a context and copy.
  Exchange(std::vector<Queue*> queues, std::vector<Staging>&& host);

  /// Enqueues the sends, behind what is in the queues and before what comes next. `rows`: where
  /// each part has them; strides are equal (CHECKed). Failures are told by the queues.
  void run(const std::vector<RowsAt>& rows, const std::vector<Send>& sends);

 private:
  void copy(const std::vector<RowsAt>& rows, const std::vector<Send>& sends);
  void stage(const std::vector<RowsAt>& rows, const std::vector<Send>& sends);
  bool gets(std::size_t part, const Send& send) const;
  void wait_for_others(std::size_t part);

  const std::vector<Queue*> queues_;
  const std::vector<Staging> host_;  // in turn: one is still written from while another is read to
  std::size_t turn_ = 0;
  std::vector<EventHandle> done_;  // by part
  std::vector<cl_event> waited_;
};

}  // namespace holdfast::opencl
