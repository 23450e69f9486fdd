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

void Queue::read(cl_mem from, std::uint64_t at, void* to, std::uint64_t bytes) {
  if (bytes == 0) return;
  note(api_->clEnqueueReadBuffer(handle_.get(), from, CL_TRUE, at, bytes, to, 0, nullptr, nullptr));
}

cl_int Queue::wait() {
  note(api_->clFlush(handle_.get()));
  for (const EventHandle& mark : marks_) {
    const cl_event event = mark.get();
    note(api_->clWaitForEvents(1, &event));
    note_progress();
  }
  marks_.clear();
  if (status_ != CL_SUCCESS) api_->clFinish(handle_.get());  // nothing may run on behind an error
  return std::exchange(status_, CL_SUCCESS);
}

}  // namespace holdfast::opencl
