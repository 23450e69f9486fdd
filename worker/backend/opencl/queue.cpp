#include "worker/backend/opencl/queue.h"

#include "shared/base/progress.h"

namespace holdfast::opencl {

void Queue::enqueue(cl_kernel kernel, const Grid& grid) {
  if (grid.groups_x == 0 || grid.groups_y == 0) return;
  const auto items_x = static_cast<std::size_t>(grid.items_x);
  const auto items_y = static_cast<std::size_t>(grid.items_y);
  const std::size_t all[2] = {static_cast<std::size_t>(grid.groups_x) * items_x,
                              static_cast<std::size_t>(grid.groups_y) * items_y};
  const std::size_t group[2] = {items_x, items_y};
  cl_event event = nullptr;
  note(api_->clEnqueueNDRangeKernel(handle_.get(), kernel, 2, nullptr, all, group, 0, nullptr,
                                    marked_ ? &event : nullptr));
  if (event != nullptr) marks_.emplace_back(*api_, event);
  marked_ = false;
}

void Queue::write(cl_mem to, std::uint64_t at, const void* from, std::uint64_t bytes) {
  if (bytes == 0) return;
  note(
      api_->clEnqueueWriteBuffer(handle_.get(), to, CL_TRUE, at, bytes, from, 0, nullptr, nullptr));
}

void Queue::write_later(cl_mem to, std::uint64_t at, const void* from, std::uint64_t bytes) {
  note(api_->clEnqueueWriteBuffer(handle_.get(), to, CL_FALSE, at, bytes, from, 0, nullptr,
                                  nullptr));
}

void Queue::read(cl_mem from, std::uint64_t at, void* to, std::uint64_t bytes) {
  if (bytes == 0) return;
  note(api_->clEnqueueReadBuffer(handle_.get(), from, CL_TRUE, at, bytes, to, 0, nullptr, nullptr));
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

}  // namespace

void Queue::read_block(const RowsAt& from, const Block& block, void* host,
                       std::int64_t host_stride) {
  if (is_empty(block)) return;
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

cl_int Queue::wait() {
  flush();
  for (const EventHandle& mark : marks_) {
    const cl_event event = mark.get();
    note(api_->clWaitForEvents(1, &event));
    note_progress();
  }
  marks_.clear();
  if (status_ != CL_SUCCESS) api_->clFinish(handle_.get());  // nothing may run on after an error
  return std::exchange(status_, CL_SUCCESS);
}

}  // namespace holdfast::opencl
