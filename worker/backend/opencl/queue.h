#pragma once
// Work for a device, in order. The first failure stays and is told at the end, so that whoever
// enqueues can go straight on.

#include <cstdint>
#include <type_traits>
#include <vector>

#include "worker/backend/opencl/memory.h"

namespace holdfast::opencl {

/// Work-groups in x and y, and items of one group.
struct Grid {
  std::int64_t groups_x = 1;
  std::int64_t groups_y = 1;
  int items_x = 1;
  int items_y = 1;
};

/// Rows of floats in a buffer, `stride` from one to the next.
struct RowsAt {
  cl_mem buffer = nullptr;
  std::int32_t stride = 0;
};

/// Some columns of some rows.
struct Block {
  std::int64_t row = 0, rows = 0;
  std::int64_t column = 0, columns = 0;
};

/// Not thread-safe.
class Queue {
 public:
  Queue() = default;
  /// `marks`: how many marks there will be between two waits.
  Queue(const Api& api, QueueHandle handle, std::size_t marks)
      : api_(&api), handle_(std::move(handle)) {
    marks_.reserve(marks);
  }

  cl_command_queue get() const { return handle_.get(); }

  /// Runs a kernel. Arguments are cl_mem, int, std::uint64_t and float, exactly as it declares
  /// them.
  template <class... Args>
  void run(const KernelHandle& kernel, const Grid& grid, const Args&... args) {
    cl_uint at = 0;
    (set(kernel.get(), at++, args), ...);
    enqueue(kernel.get(), grid);
  }
  /// Both return when the bytes are there.
  void write(cl_mem to, std::uint64_t at, const void* from, std::uint64_t bytes);
  void read(cl_mem from, std::uint64_t at, void* to, std::uint64_t bytes);
  /// Returns at once; `from` stays as it is until a done() behind it has come.
  void write_later(cl_mem to, std::uint64_t at, const void* from, std::uint64_t bytes);

  /// Part of rows to and from rows at `host`, `host_stride` floats apart, at the same row and
  /// column there. Both return at once; `host` stays as it is until wait() or finish().
  void read_block(const RowsAt& from, const Block& block, void* host, std::int64_t host_stride);
  void write_block(const RowsAt& to, const Block& block, const float* host,
                   std::int64_t host_stride);
  /// From one buffer to the same place of another one of the same context.
  void copy_block(const RowsAt& from, const RowsAt& to, const Block& block);
  /// The first bytes of a buffer to those of another one, on this device.
  void move(cl_mem from, cl_mem to, std::uint64_t bytes);
  /// When all that was enqueued so far is done, told to the driver at once so that another queue
  /// of the context can wait for it. Empty where the driver refuses, which wait() tells.
  EventHandle done();
  /// Until that is so; at once for an empty one.
  void until(const EventHandle& done);
  /// Has the device begin.
  void flush() { note(api_->clFlush(handle_.get())); }
  /// What is enqueued from now on waits for these.
  void wait_for(const std::vector<cl_event>& events);
  /// Until all is done; failures are left to wait().
  void finish() { note(api_->clFinish(handle_.get())); }

  /// The kernel that is run next can be waited for alone: wait() tells the watchdog of each.
  void mark() { marked_ = true; }
  /// Until all is done. The first failure since the last wait(), else CL_SUCCESS.
  cl_int wait();

 private:
  template <class T>
  void set(cl_kernel kernel, cl_uint at, const T& value) {
    static_assert(std::is_same_v<T, cl_mem> || std::is_same_v<T, std::int32_t> ||
                      std::is_same_v<T, std::uint64_t> || std::is_same_v<T, float>,
                  "no argument of our kernels has this type");
    note(api_->clSetKernelArg(kernel, at, sizeof value, &value));
  }
  void enqueue(cl_kernel kernel, const Grid& grid);
  void note(cl_int status) {
    if (status_ == CL_SUCCESS) status_ = status;
  }

  const Api* api_ = nullptr;
  QueueHandle handle_;
  std::vector<EventHandle> marks_;
  bool marked_ = false;
  cl_int status_ = CL_SUCCESS;
};

}  // namespace holdfast::opencl
