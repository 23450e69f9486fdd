#include "worker/backend/opencl/device/bound_kernels.h"

namespace holdfast::opencl {

BoundKernel& BoundKernels::next(cl_kernel kernel) {
  if (operation_ == kNone) {
    unbound_ = BoundKernel(kernel);
    return unbound_;
  }
  const std::size_t index = launch_++;
  if (BoundKernel* const found = find(index, kernel)) return *found;
  if (makes_own_) {
    if (BoundKernel* const made = make(index, kernel)) return *made;
  }
  return shared_.try_emplace(kernel, kernel).first->second;
}

BoundKernel* BoundKernels::find(std::size_t index, cl_kernel kernel) {
  if (operation_ >= launches_.size()) return nullptr;
  for (Launch& launch : launches_[operation_]) {
    if (launch.index == index && launch.made_of == kernel) return &launch.bound;
  }
  return nullptr;
}

BoundKernel* BoundKernels::make(std::size_t index, cl_kernel kernel) {
  if (own_ == kOwnMost) return nullptr;
  KernelHandle copy = copy_of(kernel);
  if (copy.get() == nullptr) return nullptr;
  ++own_;
  if (operation_ >= launches_.size()) launches_.resize(operation_ + 1);
  launches_[operation_].push_back({index, kernel, BoundKernel(std::move(copy))});
  return &launches_[operation_].back().bound;
}

/// Another object of the kernel's function; empty if the driver refuses.
KernelHandle BoundKernels::copy_of(cl_kernel kernel) const {
  constexpr std::size_t kNameBytesMost = 128;
  char name[kNameBytesMost] = {};
  cl_program program = nullptr;
  if (api_->clGetKernelInfo(kernel, CL_KERNEL_PROGRAM, sizeof(cl_program),
                            static_cast<void*>(&program), nullptr) != CL_SUCCESS ||
      api_->clGetKernelInfo(kernel, CL_KERNEL_FUNCTION_NAME, sizeof name - 1, name, nullptr) !=
          CL_SUCCESS) {
    return {};
  }
  cl_int status = CL_SUCCESS;
  KernelHandle copy(*api_, api_->clCreateKernel(program, name, &status));
  return status == CL_SUCCESS ? std::move(copy) : KernelHandle();
}

void BoundKernels::forget() {
  for (std::vector<Launch>& launches : launches_) {
    for (Launch& launch : launches) launch.bound.forget();
  }
  for (auto& [kernel, bound] : shared_) bound.forget();
}

}  // namespace holdfast::opencl
