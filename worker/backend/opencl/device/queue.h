#pragma once
// Work for a device, in order. The first failure is stored and reported at the end, so that code
// which enqueues need not check each call.

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "worker/backend/opencl/device/bound_kernels.h"
#include "worker/backend/opencl/device/memory.h"

namespace holdfast::opencl {

/// Work-groups in x and y, and items of a work-group in x and y.
struct Grid {
  std::int64_t groups_x = 1;
  std::int64_t groups_y = 1;
  int items_x = 1;
  int items_y = 1;
};

/// Rows of floats in a buffer, `stride` floats from one to the next.
struct RowsAt {
  cl_mem buffer = nullptr;
  std::int32_t stride = 0;
};

/// Columns [column, column + columns) of rows [row, row + rows).
struct Block {
  std::int64_t row = 0, rows = 0;
  std::int64_t column = 0, columns = 0;
};

/// An argument that is local memory of a work-group.
struct LocalBytes {
  std::uint64_t bytes = 0;
};

/// An in-order queue of one device. Not thread-safe.
class Queue {
 public:
  Queue() = default;
  /// `marks`: the most marks between two waits.
  Queue(const Api& api, QueueHandle handle, std::size_t marks)
      : api_(&api), handle_(std::move(handle)), kernels_(api) {
    marks_.reserve(marks);
  }

  cl_command_queue get() const { return handle_.get(); }

  /// Runs a kernel. Arguments are cl_mem, std::int32_t, std::uint64_t, float, LocalBytes and
  /// parameter blocks (single/kernel_parameters.h), exactly as the kernel declares them; those that
  /// the launch's kernel object has already are not set again.
  template <class... Args>
  void run(const KernelHandle& kernel, const Grid& grid, const Args&... args) {
    BoundKernel& bound = kernels_.next(kernel.get());
    cl_uint at = 0;
    bool ready = true;
    ((ready &= set(bound, at++, args)), ...);
    if (ready && !prepares_) enqueue(bound, grid);
  }
  /// The launches that follow belong to operation `i` of the program (BoundKernels).
  void begin_operation(std::size_t i) { kernels_.begin_operation(i); }
  void end_operations() { kernels_.end_operations(); }
  /// While true, run() enqueues nothing: it gives the launches kernel objects of their own and sets
  /// their arguments.
  void prepare(bool prepares) {
    prepares_ = prepares;
    kernels_.make_own(prepares);
  }
  /// Copies of bytes from and to the host; both return when they are done.
  void write(cl_mem to, std::uint64_t at, const void* from, std::uint64_t bytes);
  void read(cl_mem from, std::uint64_t at, void* to, std::uint64_t bytes);
  /// Both return at once. When the event of a later done() is complete, or wait() or finish() has
  /// returned, `from` may change and `to` has the bytes.
  void write_later(cl_mem to, std::uint64_t at, const void* from, std::uint64_t bytes);
  void read_later(cl_mem from, std::uint64_t at, void* to, std::uint64_t bytes);

  /// Copy a block between rows on the device and rows at `host`, `host_stride` floats apart, at the
  /// same row and column. Both return at once; `host` must stay valid until wait() or finish().
  void read_block(const RowsAt& from, const Block& block, void* host, std::int64_t host_stride);
  void write_block(const RowsAt& to, const Block& block, const float* host,
                   std::int64_t host_stride);
  /// Copies a block to the same rows and columns of another buffer of the same context.
  void copy_block(const RowsAt& from, const RowsAt& to, const Block& block);
  /// Copies the first bytes of a buffer to those of another one, on this device.
  void move(cl_mem from, cl_mem to, std::uint64_t bytes);
  /// The event of all that was enqueued so far, flushed so that another queue of the context can
  /// wait for it. Empty where the driver refuses, which wait() reports.
  EventHandle done();
  /// Waits for the event; returns at once for an empty one.
  void until(const EventHandle& done);
  /// Makes the device begin.
  void flush() { note(api_->clFlush(handle_.get())); }
  /// Lets all that is enqueued from now on wait for these events.
  void wait_for(const std::vector<cl_event>& events);
  /// Waits for all work; failures are left to wait().
  void finish();
  /// True from the first work after a wait() or finish() on.
  bool busy() const { return busy_; }

  /// Makes the next kernel one that wait() can wait for alone, to report progress to the watchdog;
  /// the device begins with it, if it has not yet.
  void mark() { marked_ = true; }
  /// Waits for all work: for each mark, then once for the rest. Gives the first failure since the
  /// last wait(), else CL_SUCCESS. Where nothing was enqueued it makes no call.
  cl_int wait();

 private:
  template <class T>
  bool set(BoundKernel& kernel, cl_uint at, const T& value) {
    static_assert(std::is_same_v<T, cl_mem> || std::is_same_v<T, std::int32_t> ||
                      std::is_same_v<T, std::uint64_t> || std::is_same_v<T, float> ||
                      (std::is_class_v<T> && std::is_trivially_copyable_v<T>),
                  "no argument of our kernels has this type");
    const std::span<const std::byte> bytes = std::as_bytes(std::span(&value, 1));
    return kernel.holds(at, bytes) || set(kernel, at, bytes.size(), bytes.data(), bytes);
  }
  bool set(BoundKernel& kernel, cl_uint at, const LocalBytes& local) {
    const std::span<const std::byte> bytes = std::as_bytes(std::span(&local, 1));
    return kernel.holds(at, bytes) || set(kernel, at, local.bytes, nullptr, bytes);
  }
  /// Sets an argument of `size` bytes; `noted`: what holds() compares with.
  bool set(BoundKernel& kernel, cl_uint at, std::size_t size, const void* value,
           std::span<const std::byte> noted);
  void enqueue(BoundKernel& kernel, const Grid& grid);
  /// Stores the status of a call that enqueues.
  void note(cl_int status) {
    busy_ = true;
    if (status_ == CL_SUCCESS) status_ = status;
  }

  const Api* api_ = nullptr;
  QueueHandle handle_;
  BoundKernels kernels_;
  std::vector<EventHandle> marks_;
  bool marked_ = false, prepares_ = false, busy_ = false;
  cl_int status_ = CL_SUCCESS;
};

}  // namespace holdfast::opencl
