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

class Group : public backend::Executor {
 public:
  using Parts = std::vector<std::unique_ptr<OpenclExecutor>>;

  backend::Memory memory() const override;
  std::uint64_t allocations() const override { return buffer_count(); }

 protected:
  /// `peers`: as Stations::peers. `floats`, `sends`: the most of one exchange.
  Group(Parts&& parts, bool peers, std::size_t floats, std::size_t sends);

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
