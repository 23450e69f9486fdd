#pragma once
// The rate at which the machine's processors multiply and add when they do nothing else: the
// yardstick of prefill.

#include "shared/base/thread_pool.h"
#include "worker/backend/cpu/kernels.h"

namespace holdfast::cli {

/// Measures on a thread pool of its own. One thread may use it.
class ProductRate {
 public:
  /// Measures the products that `kernels` make with weights of `type`, a share of `int8_share` (0
  /// to 1) of them with int8 rows.
  ProductRate(int threads, const cpu::Kernels& kernels, gguf::TensorType type, double int8_share);
  /// Computes for about 20 ms; returns 10^12 multiplications and additions a second.
  double tops();

 private:
  ThreadPool team_;
  const cpu::Kernels& kernels_;
  const cpu::Format format_;
  std::int64_t rounds_ = 1000;
  double times_ = 1;  // the mix's rate over that of the measured form
};

}  // namespace holdfast::cli
