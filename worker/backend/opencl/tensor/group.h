#pragma once
// The common part of the executors for several devices.

#include <memory>
#include <string>
#include <vector>

#include "worker/backend/opencl/single/executor.h"
#include "worker/backend/opencl/tensor/device_communicator.h"

namespace holdfast::opencl {

/// Options for part `i` of `n` equal parts of a load: they scale its progress to the whole.
backend::LoadOptions options_of_part(const backend::LoadOptions& all, std::size_t i, std::size_t n);

/// Staging memory for rows in transit through the host; none where the parts of a load are peers
/// (as DeviceContexts) or there is one part. `bytes`: the most that is in transit at once. Errors
/// as Staging.
Result<std::vector<Staging>> take_host(const std::vector<std::unique_ptr<OpenclExecutor>>& parts,
                                       bool peers, std::uint64_t bytes);

/// Base of the executors that run a model on several devices, a part on each. Not thread-safe.
class Group : public backend::Executor {
 public:
  using Parts = std::vector<std::unique_ptr<OpenclExecutor>>;

  const backend::Capabilities& capabilities() const override { return capabilities_; }
  backend::Memory memory() const override;
  backend::ExecutorCounters counters() const override { return {0, buffer_count()}; }

 protected:
  /// `host`: as DeviceCommunicator. `sends`: the most sends of one run of it.
  Group(Parts&& parts, std::vector<Staging>&& host, std::size_t sends);

  void begin(const backend::Batch& batch);
  /// Waits for all parts, so that nothing runs on after an error; gives the first error.
  Result<void> settle();
  bool alike() const;  // all parts are of one numerics class

  Parts parts_;
  backend::Capabilities capabilities_;  // those of a part; the class is the derived executor's
  DeviceCommunicator communicator_;
  // Their capacity is reserved.
  std::vector<RowsAt> rows_;
  std::vector<Send> sends_;
};

}  // namespace holdfast::opencl
