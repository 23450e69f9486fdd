#include "worker/backend/opencl/device/programs.h"

#include <algorithm>

#include "worker/backend/opencl/device/program_cache.h"

namespace holdfast::opencl {

/// No option lets a compiler change the order or kind of an operation.
std::string Programs::build_options() const {
  return std::string("-cl-std=CL1.2") +
         (device_.rounds_divisions ? " -cl-fp32-correctly-rounded-divide-sqrt" : "");
}

std::string Programs::build_log(cl_program program) const {
  std::size_t bytes = 0;
  device_.api->clGetProgramBuildInfo(program, device_.id, CL_PROGRAM_BUILD_LOG, 0, nullptr, &bytes);
  std::string log(bytes, '\0');
  device_.api->clGetProgramBuildInfo(program, device_.id, CL_PROGRAM_BUILD_LOG, bytes, log.data(),
                                     nullptr);
  constexpr std::size_t kLogBytesMax = 600;
  if (log.size() > kLogBytesMax) log.resize(kLogBytesMax);
  while (!log.empty() && (log.back() == '\0' || log.back() == '\n')) log.pop_back();
  return log;
}

Result<ProgramHandle> Programs::from_source(const std::string& what,
                                            const std::string& source) const {
  const Api& api = *device_.api;
  const char* text = source.c_str();
  cl_int status = CL_SUCCESS;
  ProgramHandle program(api, api.clCreateProgramWithSource(context_, 1, &text, nullptr, &status));
  std::string log;
  if (status == CL_SUCCESS) {
    status = api.clBuildProgram(program.get(), 1, &device_.id, build_options().c_str(), nullptr,
                                nullptr);
    if (status != CL_SUCCESS) log = ": " + build_log(program.get());
  }
  if (status == CL_SUCCESS) return program;
  return Error{Errc::kModelFailed,
               "build kernels " + what + " for " + device_.name + ": " + status_text(status) + log};
}

/// Empty if the driver rejects the binary: it may be of another version than the key says.
ProgramHandle Programs::from_binary(const std::string& binary) const {
  const Api& api = *device_.api;
  const auto* bytes = reinterpret_cast<const unsigned char*>(binary.data());
  const std::size_t size = binary.size();
  cl_int taken = CL_SUCCESS, status = CL_SUCCESS;
  ProgramHandle program(
      api, api.clCreateProgramWithBinary(context_, 1, &device_.id, &size, &bytes, &taken, &status));
  if (status != CL_SUCCESS || taken != CL_SUCCESS) return {};
  status =
      api.clBuildProgram(program.get(), 1, &device_.id, build_options().c_str(), nullptr, nullptr);
  return status == CL_SUCCESS ? std::move(program) : ProgramHandle();
}

Result<cl_program> Programs::get(const std::string& what, const std::string& source,
                                 const std::string& cache) {
  const std::string key = cache_key(
      {source, build_options(), device_.name, device_.version, device_.driver, device_.platform});
  const std::lock_guard lock(mutex_);
  const auto cached = entries_.find(key);
  if (cached != entries_.end()) return cached->second.program.get();
  const ProgramCache files(cache);
  Entry entry;
  if (const auto binary = files.read(key)) entry.program = from_binary(*binary);
  if (entry.program.get() != nullptr) {
    ++counts_.from_cache;
  } else {
    HOLDFAST_TRY(entry.program, from_source(what, source));
    entry.unsaved_in = cache;
    ++counts_.from_source;
  }
  return entries_.emplace(key, std::move(entry)).first->second.program.get();
}

Result<KernelHandle> Programs::kernel(cl_program program, const char* name) const {
  cl_int status = CL_SUCCESS;
  KernelHandle kernel(*device_.api, device_.api->clCreateKernel(program, name, &status));
  if (status == CL_SUCCESS) return kernel;
  return Error{Errc::kModelFailed, std::string("make kernel ") + name + " for " + device_.name +
                                       ": " + status_text(status)};
}

/// The only binary, as a program is built for one device. Its index differs: the standard lists all
/// devices of the context, PoCL 3.1 those that were built for, and PoCL writes to every address
/// that it gets, null or not.
std::string Programs::binary_of(cl_program program) const {
  const Api& api = *device_.api;
  std::size_t bytes = 0;
  if (api.clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, 0, nullptr, &bytes) != CL_SUCCESS) {
    return "";
  }
  std::vector<std::size_t> sizes(bytes / sizeof(std::size_t));
  if (api.clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, bytes, sizes.data(), nullptr) !=
      CL_SUCCESS) {
    return "";
  }
  std::vector<std::string> binaries;
  for (const std::size_t size : sizes) binaries.emplace_back(size, '\0');
  std::vector<char*> at;
  for (std::string& binary : binaries) at.push_back(binary.data());
  if (api.clGetProgramInfo(program, CL_PROGRAM_BINARIES, at.size() * sizeof at[0], at.data(),
                           nullptr) != CL_SUCCESS) {
    return "";
  }
  const auto made = std::find_if(binaries.begin(), binaries.end(),
                                 [](const std::string& binary) { return !binary.empty(); });
  return made == binaries.end() ? "" : *made;
}

void Programs::save() {
  const std::lock_guard lock(mutex_);
  for (auto& [key, entry] : entries_) {
    if (entry.unsaved_in.empty()) continue;
    ProgramCache(entry.unsaved_in).write(key, binary_of(entry.program.get()));
    entry.unsaved_in.clear();
  }
}

BuildCounts Programs::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

}  // namespace holdfast::opencl
