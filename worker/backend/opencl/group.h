#pragma once
// What models over several devices have in common, however they are divided.

#include <memory>
#include <string>
#include <vector>

#include "worker/backend/opencl/exchange.h"
#include "worker/backend/opencl/executor.h"

namespace holdfast::opencl {

/// Options for part `i` of `n` equal parts of a load: its progress is that much of the whole.
backend::LoadOptions options_of_part(const backend::LoadOptions& all, std::size_t i, std::size_t n);

/// Where rows lie on their way through the host; nothing where the parts of a load are peers (as
/// Stations) or there is one. `bytes`: the most that is on its way at once. Errors as Staging.
Result<std::vector<Staging>> take_host(const std::vector<std::unique_ptr<OpenclExecutor>>& parts,
                                       bool peers, std::uint64_t bytes);

class Group : public backend::Executor {
 public:
  using Parts = std::vector<std::unique_ptr<OpenclExecutor>>;

  backend::Memory memory() const override;
  std::uint64_t allocations() const override { return buffer_count(); }

 protected:
  /// `host`: as Exchange. `sends`: the most of one exchange.
  Group(Parts&& parts, std::vector<Staging>&& host, std::size_t sends);

  void begin(const std::vector<backend::Segment>& segments);
  /// Waits for all, so that nothing runs on behind an error; the first error.
  Result<void> settle();
  bool alike() const;  // the bits of any of them are those of the others

  Parts parts_;
  Exchange exchange_;
  // Capacity is reserved.
  std::vector<RowsAt> rows_;
  std::vector<Send> sends_;
};

}  // namespace holdfast::opencl
