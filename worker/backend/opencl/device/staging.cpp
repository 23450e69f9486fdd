#include "worker/backend/opencl/device/staging.h"

#include <utility>

namespace holdfast::opencl {

Mapping::Mapping(Mapping&& other) noexcept {
  *this = std::move(other);
}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(api_, other.api_);
  std::swap(queue_, other.queue_);
  std::swap(buffer_, other.buffer_);
  std::swap(data_, other.data_);
  return *this;
}

Mapping::~Mapping() {
  if (data_ == nullptr) return;
  api_->clEnqueueUnmapMemObject(queue_, buffer_, data_, 0, nullptr, nullptr);
  api_->clFinish(queue_);
}

Result<Mapping> Mapping::make(const Api& api, cl_command_queue queue, cl_mem buffer,
                              std::uint64_t bytes, cl_map_flags flags, const std::string& what) {
  Mapping mapping;
  mapping.api_ = &api;
  mapping.queue_ = queue;
  mapping.buffer_ = buffer;
  cl_int status = CL_SUCCESS;
  mapping.data_ = static_cast<std::uint8_t*>(api.clEnqueueMapBuffer(
      queue, buffer, CL_TRUE, flags, 0, bytes, 0, nullptr, nullptr, &status));
  if (status == CL_SUCCESS && mapping.data_ != nullptr) return mapping;
  return Error{Errc::kMemoryExhausted, "map " + std::to_string(bytes) + " bytes for " + what +
                                           ": " + status_text(status) +
                                           "; free memory of the machine"};
}

Result<Staging> Staging::take(const Api& api, cl_context context, cl_command_queue queue,
                              std::uint64_t bytes, const std::string& what) {
  Staging staging;
  staging.bytes_ = bytes;
  cl_int status = CL_SUCCESS;
  staging.handle_ =
      MemoryHandle(api, api.clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR,
                                           bytes, nullptr, &status));
  if (status != CL_SUCCESS) {
    return Error{Errc::kMemoryExhausted, "take " + std::to_string(bytes) +
                                             " bytes of pinned host memory for " + what + ": " +
                                             status_text(status) +
                                             "; free memory of the machine, or allow more of it "
                                             "to be locked"};
  }
  HOLDFAST_TRY(staging.mapping_, Mapping::make(api, queue, staging.handle_.get(), bytes,
                                               CL_MAP_READ | CL_MAP_WRITE, what));
  return staging;
}

}  // namespace holdfast::opencl
