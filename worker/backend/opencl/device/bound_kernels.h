#pragma once
// Kernel objects that remember their arguments. Setting all arguments of a step costs the host more
// than enqueuing it, and most of them are those of the step before: each launch of an operation has
// a kernel object of its own, and only what differs is set.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <unordered_map>
#include <vector>

#include "shared/base/check.h"
#include "worker/backend/opencl/device/api.h"

namespace holdfast::opencl {

/// A kernel object and its arguments as last set. Not thread-safe.
class BoundKernel {
 public:
  BoundKernel() = default;
  /// A kernel object that another one owns.
  explicit BoundKernel(cl_kernel kernel) : kernel_(kernel) {}
  explicit BoundKernel(KernelHandle own) : own_(std::move(own)), kernel_(own_.get()) {}

  cl_kernel get() const { return kernel_; }
  /// True if argument `at` was last set to these bytes.
  bool holds(cl_uint at, std::span<const std::byte> value) const {
    return at < set_.size() && set_[at].bytes == value.size() &&
           std::memcmp(values_.data() + set_[at].first, value.data(), value.size()) == 0;
  }
  /// Stores what argument `at` was set to: always as many bytes as before.
  void note(cl_uint at, std::span<const std::byte> value) {
    if (at >= set_.size()) set_.resize(at + 1);
    Argument& argument = set_[at];
    if (argument.bytes == 0) {
      argument = {values_.size(), value.size()};
      values_.resize(values_.size() + value.size());
    }
    CHECK(argument.bytes == value.size());
    std::memcpy(values_.data() + argument.first, value.data(), value.size());
  }
  /// Makes every argument one to set: after a failed call nobody knows what the object holds.
  void forget() {
    set_.clear();
    values_.clear();
  }

 private:
  struct Argument {
    std::size_t first = 0, bytes = 0;  // in values_; 0 bytes: not set
  };
  KernelHandle own_;
  cl_kernel kernel_ = nullptr;
  std::vector<Argument> set_;
  std::vector<std::byte> values_;
};

/// The kernel objects of a program's launches. A kernel that next() got, and the buffers among the
/// arguments of an operation, must live as long as launches follow. Not thread-safe.
class BoundKernels {
 public:
  /// The most kernel objects of its own; later launches share those that they are made of. It
  /// bounds the host's memory, of which drivers take a few KiB for each.
  static constexpr std::size_t kOwnMost = 4096;

  BoundKernels() = default;
  explicit BoundKernels(const Api& api) : api_(&api) {}

  /// The launches that follow belong to operation `i` of the program.
  void begin_operation(std::size_t i) {
    operation_ = i;
    launch_ = 0;
  }
  /// The launches that follow belong to no operation: all of their arguments are set.
  void end_operations() { operation_ = kNone; }
  /// Gives the launches that follow objects of their own, until it is called with false. The driver
  /// may refuse one: its launch then shares the kernel that it is made of.
  void make_own(bool own) { makes_own_ = own; }

  /// The object for the next launch of a kernel. Valid until the next call.
  BoundKernel& next(cl_kernel kernel);
  /// Forgets the arguments of all objects.
  void forget();

 private:
  static constexpr std::size_t kNone = SIZE_MAX;
  struct Launch {
    std::size_t index;  // among the launches of the operation
    cl_kernel made_of;
    BoundKernel bound;
  };

  BoundKernel* find(std::size_t index, cl_kernel kernel);
  BoundKernel* make(std::size_t index, cl_kernel kernel);
  KernelHandle copy_of(cl_kernel kernel) const;

  const Api* api_ = nullptr;
  std::size_t operation_ = kNone, launch_ = 0;
  bool makes_own_ = false;
  std::size_t own_ = 0;                                // objects in launches_
  std::vector<std::vector<Launch>> launches_;          // by operation
  std::unordered_map<cl_kernel, BoundKernel> shared_;  // launches of operations without own objects
  BoundKernel unbound_;                                // launches of no operation
};

}  // namespace holdfast::opencl
