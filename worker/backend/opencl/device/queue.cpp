#include "worker/backend/opencl/device/queue.h"

#include "shared/base/progress.h"

namespace holdfast::opencl {

/// Gives false if the driver refuses the argument: the launch must not run with an older one.
bool Queue::set(BoundKernel& kernel, cl_uint at, std::size_t size, const void* value,
                std::span<const std::byte> noted) {
  const cl_int status = api_->clSetKernelArg(kernel.get(), at, size, value);
  if (status == CL_SUCCESS) {
    kernel.note(at, noted);
    return true;
  }
  kernel.forget();
  note(status);
  return false;
}

void Queue::enqueue(BoundKernel& kernel, const Grid& grid) {
  if (grid.groups_x == 0 || grid.groups_y == 0) return;
  const auto items_x = static_cast<std::size_t>(grid.items_x);
  const auto items_y = static_cast<std::size_t>(grid.items_y);
  const std::size_t all[2] = {static_cast<std::size_t>(grid.groups_x) * items_x,
                              static_cast<std::size_t>(grid.groups_y) * items_y};
  const std::size_t group[2] = {items_x, items_y};
  cl_event event = nullptr;
  const cl_int status = api_->clEnqueueNDRangeKernel(handle_.get(), kernel.get(), 2, nullptr, all,
                                                     group, 0, nullptr, marked_ ? &event : nullptr);
  if (status != CL_SUCCESS) kernel.forget();
  note(status);
  if (event != nullptr) {
    marks_.emplace_back(*api_, event);
    flush();
  }
  marked_ = false;
}

void Queue::write(cl_mem to, std::uint64_t at, const void* from, std::uint64_t bytes) {
  if (bytes == 0) return;
  note(
      api_->clEnqueueWriteBuffer(handle_.get(), to, CL_TRUE, at, bytes, from, 0, nullptr, nullptr));
}

void Queue::write_later(cl_mem to, std::uint64_t at, const void* from, std::uint64_t bytes) {
  if (bytes == 0) return;
  note(api_->clEnqueueWriteBuffer(handle_.get(), to, CL_FALSE, at, bytes, from, 0, nullptr,
                                  nullptr));
}

void Queue::read(cl_mem from, std::uint64_t at, void* to, std::uint64_t bytes) {
  if (bytes == 0) return;
  note(api_->clEnqueueReadBuffer(handle_.get(), from, CL_TRUE, at, bytes, to, 0, nullptr, nullptr));
}

void Queue::read_later(cl_mem from, std::uint64_t at, void* to, std::uint64_t bytes) {
  if (bytes == 0) return;
  note(
      api_->clEnqueueReadBuffer(handle_.get(), from, CL_FALSE, at, bytes, to, 0, nullptr, nullptr));
}

namespace {

/// A block of rows as the functions for rectangles take it.
struct Rect {
  Rect(const Block& block, std::int64_t stride)
      : origin{static_cast<std::size_t>(block.column) * sizeof(float),
               static_cast<std::size_t>(block.row), 0},
        pitch(static_cast<std::size_t>(stride) * sizeof(float)) {}
  std::size_t origin[3];
  std::size_t pitch;
};

struct Region {
  explicit Region(const Block& block)
      : size{static_cast<std::size_t>(block.columns) * sizeof(float),
             static_cast<std::size_t>(block.rows), 1} {}
  std::size_t size[3];
};

bool is_empty(const Block& block) {
  return block.rows == 0 || block.columns == 0;
}

/// True if the block is one run of bytes in rows of this stride.
bool is_run(const Block& block, std::int64_t stride) {
  return block.rows == 1 || (block.column == 0 && block.columns == stride);
}

/// Where it begins.
std::uint64_t first_byte(const Block& block, std::int64_t stride) {
  return static_cast<std::uint64_t>(block.row * stride + block.column) * sizeof(float);
}

}  // namespace

void Queue::read_block(const RowsAt& from, const Block& block, void* host,
                       std::int64_t host_stride) {
  if (is_empty(block)) return;
  if (is_run(block, from.stride) && is_run(block, host_stride)) {
    return read_later(from.buffer, first_byte(block, from.stride),
                      static_cast<std::uint8_t*>(host) + first_byte(block, host_stride),
                      static_cast<std::uint64_t>(block.rows * block.columns) * sizeof(float));
  }
  const Rect there(block, from.stride), here(block, host_stride);
  note(api_->clEnqueueReadBufferRect(handle_.get(), from.buffer, CL_FALSE, there.origin,
                                     here.origin, Region(block).size, there.pitch, 0, here.pitch, 0,
                                     host, 0, nullptr, nullptr));
}

void Queue::write_block(const RowsAt& to, const Block& block, const float* host,
                        std::int64_t host_stride) {
  if (is_empty(block)) return;
  const Rect there(block, to.stride), here(block, host_stride);
  note(api_->clEnqueueWriteBufferRect(handle_.get(), to.buffer, CL_FALSE, there.origin, here.origin,
                                      Region(block).size, there.pitch, 0, here.pitch, 0, host, 0,
                                      nullptr, nullptr));
}

void Queue::copy_block(const RowsAt& from, const RowsAt& to, const Block& block) {
  if (is_empty(block)) return;
  const Rect source(block, from.stride), target(block, to.stride);
  note(api_->clEnqueueCopyBufferRect(handle_.get(), from.buffer, to.buffer, source.origin,
                                     target.origin, Region(block).size, source.pitch, 0,
                                     target.pitch, 0, 0, nullptr, nullptr));
}

void Queue::move(cl_mem from, cl_mem to, std::uint64_t bytes) {
  note(api_->clEnqueueCopyBuffer(handle_.get(), from, to, 0, 0, bytes, 0, nullptr, nullptr));
}

EventHandle Queue::done() {
  cl_event event = nullptr;
  note(api_->clEnqueueMarkerWithWaitList(handle_.get(), 0, nullptr, &event));
  flush();
  return EventHandle(*api_, event);
}

void Queue::until(const EventHandle& done) {
  const cl_event event = done.get();
  if (event != nullptr) note(api_->clWaitForEvents(1, &event));
}

void Queue::wait_for(const std::vector<cl_event>& events) {
  if (events.empty()) return;
  note(api_->clEnqueueBarrierWithWaitList(handle_.get(), static_cast<cl_uint>(events.size()),
                                          events.data(), nullptr));
}

void Queue::finish() {
  note(api_->clFinish(handle_.get()));
  busy_ = false;
}

cl_int Queue::wait() {
  if (busy_ && !marks_.empty()) flush();
  for (const EventHandle& mark : marks_) {
    const cl_event event = mark.get();
    note(api_->clWaitForEvents(1, &event));
    note_progress();
  }
  marks_.clear();
  if (busy_) finish();  // after an error too: nothing may run on
  if (status_ != CL_SUCCESS) kernels_.forget();
  return std::exchange(status_, CL_SUCCESS);
}

}  // namespace holdfast::opencl
