#pragma once
// Rows from one device of a load to the others: by copies between their buffers, or through the
// host where devices cannot see each other's memory.

#include <cstddef>
#include <vector>

#include "worker/backend/opencl/queue.h"

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
  /// `queues`: one for each part; they outlive this. `peers`: they share a context and may copy.
  /// `floats`: the most that the rows of one call have, gaps included.
  Exchange(std::vector<Queue*> queues, bool peers, std::size_t floats);

  /// Enqueues the sends, behind what is in the queues and before what comes next. `rows`: where
  /// each part has them; strides are equal (CHECKed). Failures are told by the queues.
  void run(const std::vector<RowsAt>& rows, const std::vector<Send>& sends);
  bool peers() const { return peers_; }

 private:
  void copy(const std::vector<RowsAt>& rows, const std::vector<Send>& sends);
  void stage(const std::vector<RowsAt>& rows, const std::vector<Send>& sends);
  bool gets(std::size_t part, const Send& send) const;
  void wait_for_others(std::size_t part);

  const std::vector<Queue*> queues_;
  const bool peers_;
  std::vector<float> staging_[2];  // in turn: one is still written from while the other is read to
  int turn_ = 0;
  std::vector<EventHandle> done_;  // by part
  std::vector<cl_event> waited_;
};

}  // namespace holdfast::opencl
