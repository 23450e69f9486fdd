#pragma once
// What the machine's processors multiply and add when they do nothing else: the yardstick of
// prefill.

#include "shared/base/thread_pool.h"
#include "worker/backend/cpu/kernels.h"

namespace holdfast::cli {

/// One thread may use it; it has a team of its own.
class ProductRate {
 public:
  /// Of the products that these kernels have for weights of such a type, `coarse` (0 to 1) of them
  /// with coarse rows.
  ProductRate(int threads, const cpu::Kernels& kernels, gguf::TensorType type, double coarse);
  /// Computes for about 20 ms and says how many multiplications and additions a second, in 10^12.
  double tops();

 private:
  ThreadPool team_;
  const cpu::Kernels& kernels_;
  const cpu::Format format_;
  std::int64_t rounds_ = 1000;
  double times_ = 1;  // what all of them are as fast as those with other rows
};

}  // namespace holdfast::cli
