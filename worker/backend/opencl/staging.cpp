#include "worker/backend/opencl/staging.h"

#include <utility>

namespace holdfast::opencl {

Staging::Staging(Staging&& other) noexcept {
  *this = std::move(other);
}

Staging& Staging::operator=(Staging&& other) noexcept {
  std::swap(api_, other.api_);
  std::swap(queue_, other.queue_);
  std::swap(handle_, other.handle_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Staging::~Staging() {
  if (data_ == nullptr) return;
  api_->clEnqueueUnmapMemObject(queue_, handle_.get(), data_, 0, nullptr, nullptr);
  api_->clFinish(queue_);
}

Result<Staging> Staging::take(const Api& api, cl_context context, cl_command_queue queue,
                              std::uint64_t bytes, const std::string& what) {
  Staging staging;
  staging.api_ = &api;
  staging.queue_ = queue;
  staging.bytes_ = bytes;
  cl_int status = CL_SUCCESS;
  staging.handle_ =
      MemoryHandle(api, api.clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR,
                                           bytes, nullptr, &status));
  if (status == CL_SUCCESS) {
    staging.data_ = static_cast<std::uint8_t*>(
        api.clEnqueueMapBuffer(queue, staging.handle_.get(), CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0,
                               bytes, 0, nullptr, nullptr, &status));
  }
  if (status == CL_SUCCESS && staging.data_ != nullptr) return staging;
  return Error{Errc::kMemoryExhausted, "take " + std::to_string(bytes) +
                                           " bytes of pinned host memory for " + what + ": " +
                                           status_text(status) +
                                           "; free memory of the machine, or allow more of it to "
                                           "be locked"};
}

}  // namespace holdfast::opencl
